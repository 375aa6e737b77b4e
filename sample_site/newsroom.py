"""What the paper prints at a given tick. Pure: the same start and tick give the same edition, byte for byte.

Every tick publishes one article (held back ones first, then numbered follow-ups) and corrects another; every third,
and every one when the paper is full, retires the oldest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from string import Template

from sample_site import quirks
from sample_site.articles import Article

RETIRE_EVERY_TICKS = 3
FULL_STORIES = 80
CORRECTIONS = (
    "An earlier version of this article gave a wrong date for the next meeting.",
    "An earlier version of this article misspelled a name. The *Gazette* apologises, and has bought new glasses.",
    "A figure in this article was rounded up where it should have been rounded down.",
    "An earlier version of this article placed the weir on the wrong side of the mill.",
    "This article has been amended to say which of the two brothers was speaking.",
)
_FOLLOW_UP = Template((Path(__file__).parent / "follow_up.md").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Story:
    """An article in print."""

    article: Article
    published: datetime
    updated: datetime


@dataclass(frozen=True, slots=True)
class Edition:
    """All that can be read at one tick."""

    tick: int
    stories: tuple[Story, ...]
    """Newest first."""
    retired: frozenset[str]
    """Slugs that answer 410."""

    def story(self, slug: str) -> Story | None:
        """The story in print under this slug."""
        return next((story for story in self.stories if story.article.slug == slug), None)

    def section(self, section: str) -> tuple[Story, ...]:
        """The stories of one section, newest first."""
        return tuple(story for story in self.stories if story.article.section == section)


def edition(articles: Sequence[Article], started: datetime, tick: int, tick_seconds: float = 1.0) -> Edition:
    """The paper after `tick` changes, the n-th of which happened `n * tick_seconds` after the start.

    A second at least, by default: then no two changes share a `Last-Modified`.
    """
    live = {article.slug: _first_print(article, started) for article in articles if not article.held_back}
    waiting = sorted((article for article in articles if article.held_back), key=lambda article: article.slug)
    retired: set[str] = set()
    for number in range(1, tick + 1):
        now = started + timedelta(seconds=number * tick_seconds)
        _correct(live, number, now)
        if number % RETIRE_EVERY_TICKS == 0 or len(live) >= FULL_STORIES:
            retired.add(_retire(live))
        article = waiting[number - 1] if number <= len(waiting) else _follow_up(articles, number - len(waiting), now)
        live[article.slug] = Story(article, now, now)
    newest_first = sorted(live.values(), key=lambda story: (story.published, story.article.slug), reverse=True)
    return Edition(tick, tuple(newest_first), frozenset(retired))


def _first_print(article: Article, started: datetime) -> Story:
    published = started - timedelta(hours=article.hours_ago)
    return Story(article, published, published)


def _ordinary(live: dict[str, Story]) -> list[Story]:
    return [story for slug, story in live.items() if slug not in quirks.ODD]


def _correct(live: dict[str, Story], number: int, now: datetime) -> None:
    """Amend one story; a stride of seven spreads the corrections over the sections."""
    ordinary = _ordinary(live)
    story = ordinary[number * 7 % len(ordinary)]
    sentence = CORRECTIONS[number % len(CORRECTIONS)]
    body = f"{story.article.body}\n\n*Correction no. {number}.* {sentence}"
    live[story.article.slug] = replace(story, article=replace(story.article, body=body), updated=now)


def _retire(live: dict[str, Story]) -> str:
    oldest = min(_ordinary(live), key=lambda story: story.published).article.slug
    del live[oldest]
    return oldest


def _follow_up(articles: Sequence[Article], number: int, now: datetime) -> Article:
    ordinary = [article for article in articles if article.slug not in quirks.ODD]
    subject = ordinary[number * 5 % len(ordinary)]
    body = _FOLLOW_UP.substitute(
        title=subject.title,
        number=number,
        next=number + 1,
        time=f"{now:%H.%M}",
        count=number + 3,
        letters=number * 2 + 9,
    )
    return replace(
        subject,
        slug=f"{subject.slug}-follow-up-{number}",
        title=f"{subject.title}: follow-up {number}",
        body=body.strip(),
        held_back=False,
    )
