"""The canonical fetcher: each new link once, as a clean article (spec 004 §7). It runs once and ends; never a loop.

python -m workers.canonical_fetcher    fetch what is new, at most CANONICAL_BUDGET_SECONDS; the rest is for next time
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core import urls
from core.canonical import COUNTED, Outcome
from core.console import log as console
from core.console import progress
from core.keys import Keys
from core.network import NetworkHealth
from core.settings import Settings, load
from core.stores import connect, presence, version
from core.stores.articles import ArticleStore
from core.stores.clock import ServerClock
from core.stores.frontier import Findings, Frontier
from core.stores.links import Lives
from core.stores.pruning import Pruning
from core.stores.subscriptions import Subscriptions
from workers import lanes, stopping

if TYPE_CHECKING:
    # Only with something to fetch: a run that finds nothing new stays small and quick.
    from workers.desk import Desk
    from workers.first_visit import Unreached, Visitor

log = logging.getLogger("canon")

ROUNDS = 3
"""A link whose page is just being visited under another name is looked at again; mostly it is an alias by then."""


@dataclass(slots=True)
class Run:
    """One run: its clock, what it found, and how each link ended."""

    clock: ServerClock
    findings: Findings
    categories: list[str]
    started: float = field(default_factory=time.monotonic)
    network: NetworkHealth = field(default_factory=NetworkHealth)
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    unreached: list[Unreached] = field(default_factory=list)
    held: list[str] = field(default_factory=list)


async def look(client: connect.Client, keys: Keys, settings: Settings) -> Run:
    """What is new? Links added by hand enter the categories of articles that are there already."""
    subscriptions = Subscriptions(client, keys)
    await subscriptions.find_categories()
    clock, categories = await ServerClock.ask(client), await subscriptions.categories()
    frontier = Frontier(client, keys)
    articles = ArticleStore(client, keys, Lives.of(settings))
    pruning = Pruning(client, keys, Lives.of(settings))
    await pruning.forget_old_attempts(clock.now())
    for category in categories:
        await pruning.drop_stale_stamps(category)
        by_hand = await frontier.unstamped(category)
        await articles.renewal([category], by_hand, clock.now())
    return Run(clock, await frontier.look(categories, clock.now()), categories)


async def fetch(desk: Desk, run: Run, budget_seconds: float) -> None:
    """Visit every link that was found, each domain in its lane, until the time is over."""
    from workers.desk import lane_of
    from workers.first_visit import Visitor

    settings = desk.settings
    visitor = Visitor(desk, run.clock)
    end = run.started + budget_seconds
    waiting = sorted(run.findings.links)

    def is_over() -> bool:
        return run.network.should_stop or time.monotonic() > end

    with progress.bar(len(waiting), "articles") as bar:

        async def visit(url: str) -> None:
            await _visit(visitor, run, url)
            bar.update()

        try:
            for _ in range(ROUNDS):
                by_domain = lanes.by_lane(waiting, lane_of)
                await lanes.drive(by_domain, visit, settings.lane_width, is_over, settings.visits_at_once)
                waiting, run.held = run.held, []
            await _settle_unreached(visitor, run)
            run.outcomes[Outcome.KNOWN] += await desk.articles.count_attempted(waiting)
        except BaseException:
            for unreached in run.unreached:
                await desk.leases.release(unreached.lease)
            raise
    run.outcomes[Outcome.DEFERRED] += len(run.findings.links) - run.outcomes.total()


async def _visit(visitor: Visitor, run: Run, url: str) -> None:
    from workers.first_visit import Held, Unreached

    ended = await visitor.visit(url, run.findings.links[url])
    match ended:
        case Held():
            run.held.append(url)
        case Unreached():
            run.network.record(urls.host_of(url), was_reached=False)
            run.unreached.append(ended)
        case _:
            run.network.record(urls.host_of(url), was_reached=True)
            run.outcomes[ended] += 1


async def _settle_unreached(visitor: Visitor, run: Run) -> None:
    """Hosts that did not answer: a failure each, unless nearly none answered. Then it is us, and nothing is marked."""
    if run.network.is_down:
        log.error("⚠️ Nearly no host answers: our own network looks down. Nothing is counted against the links.")
    while run.unreached:
        unreached = run.unreached.pop()
        if run.network.is_down:
            await visitor.desk.leases.release(unreached.lease)
            run.outcomes[Outcome.DEFERRED] += 1
        else:
            run.outcomes[await visitor.blame(unreached)] += 1


async def finish(client: connect.Client, keys: Keys, settings: Settings, run: Run) -> Mapping[str, int]:
    """Prune a little, count everything once, say one sentence if there was anything to do."""
    lives = Lives.of(settings)
    await Pruning(client, keys, lives).run(run.categories, run.clock.now())
    counts = tally(run)
    seconds = time.monotonic() - run.started
    await ArticleStore(client, keys, lives).record_run(counts, run.clock.now(), seconds)
    if run.findings.links:
        log.info(
            "🏁 %(found)d links: %(known)d known, %(rejected)d rejected, %(new)d new = %(stored)d stored, "
            "%(failed)d failed, %(retry)d to retry, %(alias)d aliases, %(duplicate)d duplicates, %(deferred)d deferred",
            counts,
        )
    return counts


def tally(run: Run) -> dict[str, int]:
    """found = new + known + rejected; new = stored + failed + retry + alias + duplicate + deferred."""
    ended = run.outcomes
    counts = {str(outcome): ended[outcome] for outcome in COUNTED}
    counts["known"] += run.findings.known
    new = sum(counts[str(o)] for o in COUNTED if o not in (Outcome.KNOWN, Outcome.REJECTED))
    return {"found": new + counts["known"] + counts["rejected"], "new": new, **counts}


# ── the two ways to run it ──


async def run_once(desk: Desk, budget_seconds: float) -> Mapping[str, int]:
    """One run on an open desk: after every cycle of the ingestor."""
    run = await look(desk.client, desk.keys, desk.settings)
    if run.findings.links:
        await fetch(desk, run, budget_seconds)
    return await finish(desk.client, desk.keys, desk.settings, run)


async def _main(settings: Settings) -> None:
    """One run by hand or by cron: nothing heavy is loaded before there is something to fetch."""
    console.set_up(settings)
    keys, client = Keys.of(settings), connect.open_store(settings)
    try:
        await presence.wait(client, settings, give_up_seconds=presence.ONCE_WAIT_SECONDS)
        await version.check(client, keys)
        run = await look(client, keys, settings)
        if run.findings.links:
            from workers.desk import furnish

            async with furnish(settings, client, keys) as desk:
                await fetch(desk, run, settings.canonical_budget_seconds)
        await finish(client, keys, settings, run)
    finally:
        await client.aclose()


def main() -> int:
    """The command line."""
    argparse.ArgumentParser(
        prog="python -m workers.canonical_fetcher", description=__doc__.splitlines()[0]
    ).parse_args()
    return stopping.run(lambda: _main(load()))


if __name__ == "__main__":
    sys.exit(main())
