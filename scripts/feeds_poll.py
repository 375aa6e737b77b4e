"""Poll feeds now and say what came of it."""

from __future__ import annotations

from dataclasses import asdict

from core.feeds.io.manual_poll import choose_feeds, poll_now, require_unpaused
from core.feeds.poll_result import PollEnd, PollReport
from core.pages.text_cleaning import printable_line
from core.runtime.terminal import echo
from core.urls.secrets import redact
from scripts import command_line
from scripts.tables import counted, span


async def poll(url: str, category: str, force: bool, *, as_json: bool = False) -> int:
    """Poll a feed or the feeds of a category; exit code 1 if one of them failed."""
    async with command_line.open_context() as context:
        await require_unpaused(context.client, context.keys)
        urls = await choose_feeds(context.subscriptions, url=url, category=category)
        reports = await poll_now(context, urls, force=force, watch=(lambda _: None) if as_json else _tell)
    code = 1 if any(report.is_failure for report in reports) else 0
    if as_json:
        command_line.print_json(
            [asdict(one) | {"url": redact(one.url), "reason": redact(one.reason)} for one in reports]
        )
        return code
    new_links = sum(report.new_links for report in reports)
    if len(urls) > 1:
        failed = sum(report.is_failure for report in reports)
        echo(f"{counted(len(reports), 'feed')}: {counted(new_links, 'new link')}, {failed} failed.")
    if new_links:
        seconds = context.settings.ingest_cycle_seconds
        echo(f"Next: a running ingestor fetches the articles within {seconds:g} s. Without one, do it now:")
        echo("    python -m workers.canonical_fetcher")
    return code


def _tell(report: PollReport) -> None:
    echo(sentence(report), flush=True)


def sentence(report: PollReport) -> str:
    """Return one line about one poll."""
    return f"{redact(report.url)}: {_what(report)}"


def _what(report: PollReport) -> str:
    reason = redact(printable_line(report.reason)).rstrip(".")
    match report.end:
        case PollEnd.CHANGED:
            links = f"{counted(report.new_links, 'new link')}, {report.known_links} known"
            rejected = f", {report.rejected_links} rejected" if report.rejected_links else ""
            return f"{links}{rejected}{f' ({reason})' if reason else ''}"
        case PollEnd.UNCHANGED:
            return "unchanged"
        case PollEnd.RETIRED:
            return f"retired by its publisher ({reason})"
        case PollEnd.FAILED:
            return f"failed: {reason}"
        case PollEnd.WAITS:
            wait = f"waits {span(report.wait_seconds)}" if report.wait_seconds else "waits"
            return f"{wait} ({reason}); it is polled after that"
        case PollEnd.HELD:
            return "another process polls it at this moment"
        case PollEnd.SKIPPED:
            return "another process has just polled it"
        case PollEnd.DISCARDED:
            return "the poll took longer than its lease and is repeated by the next one"
