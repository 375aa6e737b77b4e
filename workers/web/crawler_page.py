"""The answer of a crawler route as a page to read."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from workers.web.crawler_models import CrawlerAnswer
from workers.web.page import page


def crawl_page(answer: CrawlerAnswer) -> str:
    parts = [f"<p>{escape(answer.message)}</p>"]
    if answer.items is not None:
        parts.append(f"<p>Items: {answer.items:,}</p>")
    if answer.removed is not None:
        parts.append(f"<p>Removed: {answer.removed:,}; remaining: {answer.remaining:,}</p>")
    parts += [_table(job.model_dump(mode="json").items()) for job in answer.jobs]
    parts += [_table(one.model_dump(mode="json").items()) for one in answer.preview]
    parts += [f"<p><a href='/v2/jobs/{escape(job.id)}'>/v2/jobs/{escape(job.id)}</a></p>" for job in answer.jobs]
    dry = " (dry run)" if answer.dry_run else ""
    return page(f"{answer.action}{dry}: {answer.domain_id}", "\n".join(parts))


def _table(rows: Iterable[tuple[str, object]]) -> str:
    cells = "".join(f"<tr><th>{escape(name)}<td>{escape(_text(value))}</tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return "–" if value in (None, "") else str(value)
