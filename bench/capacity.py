"""How many cores, how much memory, how many shards? Arithmetic over measured costs; `python -m bench.capacity`

`bench/results/units.json`, written by `./scripts/bench day`, says what each kind of work costs. Nothing is measured
here; the tables are printed and written into docs/scale.md, and a test compares them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.harness import table, write_part

RESULTS = Path(__file__).parent / "results"
UNITS = ("polls", "changed_feeds", "articles", "refreshes", "chunks")
DAY_SECONDS = 86_400
POLLS_A_DAY = 24
"""A feed with validators is polled hourly when it has some news every day."""
ARTICLES_A_DAY = 2
"""New articles of a feed."""
CHECKS_A_DAY = 1 / 10
"""Of an item: most of them have reached the intervals of 7 and 14 days."""
PEAK = 2.0
"""The busiest hour has twice the work of the mean; cores are counted for it."""
WORKER_CORES = 16
SHARD_GB = 32
"""A server of Redis is easily saved, copied and failed over up to here."""
SHARD_BUSY = 0.5
"""Of its one core in the busiest hour, so that nobody waits."""
SEARCH_GB = 64
"""Memory of a host that holds the search replica."""
REPLICA_BYTES = 384 * 4 + 384 + 900
"""Of a chunk: its vector, its row in the graph, its words."""
SCENARIOS = ((10**3, 10**6), (10**5, 10**6), (10**5, 10**8), (10**7, 10**8))


@dataclass(frozen=True, slots=True)
class Unit:
    """What one more of something costs: CPU seconds of ours and of Redis, bytes in Redis, CPU seconds to start."""

    cpu: float
    server: float
    bytes: float
    start: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """What happens in a day."""

    polls: float
    changed_feeds: float
    articles: float
    refreshes: float

    @classmethod
    def of(cls, feeds: int, links: int, items: int | None = None) -> Traffic:
        """Of so many feeds, whose changes bring so many links each; without a number of items, those of a week."""
        articles = feeds * ARTICLES_A_DAY
        known = articles * 7 if items is None else items
        return cls(feeds * POLLS_A_DAY - articles / links, articles / links, articles, known * CHECKS_A_DAY)


def predicted_seconds(units: Mapping[str, Unit], done: Mapping[str, int], starts: int) -> float:
    """CPU seconds, ours and the server's, of so much work, with processes started so often."""
    return sum(done[name] * (units[name].cpu + units[name].server) + starts * units[name].start for name in UNITS)


@dataclass(frozen=True, slots=True)
class Need:
    """What a load needs in its busiest hour."""

    cores: float
    redis_cores: float
    redis_gb: float
    replica_gb: float

    @property
    def shards(self) -> int:
        """Servers of Redis, by memory or by CPU, whatever needs more."""
        return max(math.ceil(self.redis_gb / SHARD_GB), math.ceil(self.redis_cores / SHARD_BUSY), 1)

    @property
    def breaks_first(self) -> tuple[str, str]:
        """What is full first on one host of each kind, and what to turn."""
        shares = {
            ("worker CPU", "more worker hosts; EMBEDDER on hosts of its own"): self.cores / WORKER_CORES,
            ("Redis CPU", "shards by KEY_PREFIX; RQ on QUEUE_REDIS_URL"): self.redis_cores / SHARD_BUSY,
            ("Redis memory", "shards by KEY_PREFIX; shorter ARTICLE_TTL_SECONDS"): self.redis_gb / SHARD_GB,
            ("memory of the search replica", "QDRANT_URL"): self.replica_gb / SEARCH_GB,
        }
        worst = max(shares, key=lambda name: shares[name])
        return worst if shares[worst] > 1 else ("nothing", "one host of each kind is enough")


def need(units: Mapping[str, Unit], chunks_per_item: float, links: int, feeds: int, items: int) -> Need:
    """What so many feeds and items need."""
    day = Traffic.of(feeds, links, items)
    done = {**asdict(day), "chunks": day.articles * chunks_per_item}
    ours = sum(done[name] * units[name].cpu for name in UNITS)
    server = sum(done[name] * units[name].server for name in UNITS)
    stored = feeds * units["polls"].bytes + items * (units["articles"].bytes + chunks_per_item * units["chunks"].bytes)
    return Need(
        PEAK * ours / DAY_SECONDS,
        PEAK * server / DAY_SECONDS,
        stored / 2**30,
        items * chunks_per_item * REPLICA_BYTES / 2**30,
    )


# ── the file, and the tables ──


def read(path: Path = RESULTS / "units.json") -> dict[str, Any]:
    return json.loads(path.read_text()) if path.is_file() else {}


def save_units(units: Mapping[str, Unit], chunks_per_item: float, machine: str) -> None:
    kept = {name: {key: round(value, 7) for key, value in asdict(unit).items()} for name, unit in units.items()}
    _save({"units": kept, "chunks_per_item": round(chunks_per_item, 2), "machine": machine})


def save_day(day: Mapping[str, Any]) -> None:
    _save(read() | {"day": day})


def _save(stored: Mapping[str, Any]) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "units.json").write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")


def unit_table(stored: Mapping[str, Any]) -> str:
    rows = [
        [name, f"{1000 * unit['cpu']:.2f}", f"{1000 * unit['server']:.2f}", f"{unit['bytes'] / 1000:.1f}"]
        for name, unit in ((name, stored["units"][name]) for name in UNITS)
    ]
    return table(["one of", "CPU ms", "Redis CPU ms", "kB in Redis"], rows)


def need_table(stored: Mapping[str, Any], links: int = 5) -> str:
    units = {name: Unit(**fields) for name, fields in stored["units"].items()}
    rows = []
    for feeds, items in SCENARIOS:
        wanted = need(units, stored["chunks_per_item"], links, feeds, items)
        sizes = (f"{wanted.cores:,.1f}", f"{wanted.redis_cores:,.2f}", f"{wanted.redis_gb:,.0f}")
        rows.append(
            [
                f"{feeds:,}",
                f"{items:,}",
                *sizes,
                f"{wanted.shards:,}",
                f"{wanted.replica_gb:,.0f}",
                *wanted.breaks_first,
            ]
        )
    heads = ["feeds", "items", "worker cores", "Redis cores", "Redis GB", "shards", "replica GB"]
    return table([*heads, "breaks first", "turn"], rows)


def day_line(stored: Mapping[str, Any]) -> str:
    """The prediction beside the measurement."""
    day = stored.get("day")
    if not day:
        return "Not measured yet: `./scripts/bench day`."
    share = day["predicted"] / day["measured"] - 1
    predicted, measured = f"predicted {day['predicted']:.0f} CPU s", f"measured {day['measured']:.0f}"
    return f"A day of {day['feeds']} feeds, {day['parts']} parts: {predicted}, {measured} ({share:+.0%})."


def main() -> None:
    stored = read()
    parts = {"units": unit_table(stored), "need": need_table(stored), "day": day_line(stored)}
    for name, text in parts.items():
        print(text, end="\n\n")
        write_part("scale.md", name, f"{text}\n\nMeasured on {stored['machine']}." if name == "units" else text)


if __name__ == "__main__":
    main()
