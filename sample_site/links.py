"""How feeds link to stories: with trackers mostly, and oddly where `quirks` says so."""

from __future__ import annotations

from sample_site import quirks
from sample_site.newsroom import Edition, Story

FEED_STORIES = 30


def tracked(story: Story, base: str, feed: str) -> str:
    """The story's address with the campaign parameters that publishers add."""
    medium = "atom" if feed == "business" else "rss"
    return f"{base}{story.article.path}?utm_source=gazette_{feed}&utm_medium={medium}&utm_campaign=feed"


def in_feed(story: Story, base: str, feed: str) -> str:
    """The link as this feed gives it."""
    slug = story.article.slug
    if slug == quirks.REDIRECTED:
        return base + quirks.REDIRECT_PATH
    if slug == quirks.AMP:
        return f"{base}/amp/{slug}"
    if slug == quirks.RELATIVE:
        return story.article.path
    return tracked(story, base, feed)


def stories_of(edition: Edition, feed: str) -> tuple[Story, ...]:
    """What a section's feed lists: its own stories, and in business one that the news has too."""
    listed = [
        story
        for story in edition.stories
        if story.article.section == feed or (feed == "business" and story.article.slug == quirks.TWO_FEEDS)
    ]
    return tuple(listed[:FEED_STORIES])
