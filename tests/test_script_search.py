"""`python -m scripts.search` as a person or a program runs it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.search.models import IndexedPage
from core.settings import Settings
from scripts import search as script
from tests import commands
from tests.search_site import Library, open_library


@pytest.fixture
async def library(settings: Settings) -> AsyncIterator[Library]:
    async with open_library(settings, {"/weir": "The weir was repaired.", "/lock": "The lock is closed."}) as opened:
        await opened.embed()
        yield opened


async def search(library: Library, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    model = {"EMBEDDER": "openai", "EMBED_API_URL": library.server.url, "EMBED_MODEL": "first"}
    return await commands.run(library.settings, "scripts.search", *words, **(model | more))


async def test_answer_for_people(library: Library) -> None:
    """Number, title, address and the passage; with --explain why."""
    done = await search(library, "weir repaired", "--words", "--explain")

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith("page by words")
    assert "  1. weir" in done.stdout
    assert library.site.url("/weir") in done.stdout
    assert "The weir was repaired." in done.stdout
    assert f"     {datetime.now(UTC).date().isoformat()} · docs\n" in done.stdout
    assert re.search(r"^     verified \d+s ago by read$", done.stdout, re.MULTILINE)
    assert "score 1.000 (words 1.000, meaning 0.000; 1 passages; c_" in done.stdout


async def test_answer_for_programs(library: Library) -> None:
    """JSON with every field of the page, its passages with ranges and parts of the score, duplicates and images."""
    done = await search(library, "weir repaired", "--json", "--domain", "docs", "--language", "en", "--images")
    told = json.loads(done.stdout)
    first = told["results"][0]

    assert done.returncode == 0, done.stderr
    assert set(told) == {
        "query",
        "total",
        "more",
        "page",
        "per_page",
        "by",
        "pending",
        "showing_results_for",
        "results",
    }
    assert (told["query"], told["page"], told["by"]) == ("weir repaired", 1, "words and meaning")
    assert set(first) == {
        *("id", "score", "version", "url", "title", "language", "type", "host", "categories", "domains"),
        *("published_ts", "updated_ts", "author", "image", "passages", "aliases", "duplicates", "images"),
        *("verified_by", "verified_ts", "verified_at", "checked_ts"),
    }
    assert (first["verified_by"], first["verified_ts"] > 0) == ("read", True)
    assert set(first["passages"][0]) == {
        *("chunk_id", "headings", "level", "types", "snippet", "highlights", "score", "lexical", "semantic")
    }


async def test_nothing_found_is_exit_code_1(library: Library) -> None:
    """And a line that says by what it was looked for."""
    done = await search(library, "zebra", "--words")

    assert (done.returncode, done.stdout) == (1, "Nothing found by words.\n")


async def test_names_that_nothing_has_are_told(library: Library) -> None:
    """A category or domain that was spelt wrong looks like one without answers."""
    await library.context.client.sadd(library.context.keys.domains, "docs")
    done = await search(library, "weir", "--domain", "dosc", "--domain", "docs", "--category", "news")

    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == [
        "There is no category news; there are: none.",
        "There is no domain dosc; there are: docs.",
    ]


async def test_language_as_people_write_it(library: Library) -> None:
    """`en-US` and `EN` are English."""
    for name in ("en", "EN", "en-US", "en_GB"):
        assert (await search(library, "weir", "--language", name)).returncode == 0, name


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["x", "--since", "yesterday"],
            "yesterday is not a date; write 2026-01-31 or 2026-01-31T12:00:00Z. "
            "A length of time before now works too: 30m, 2h, 3d.",
        ),
        (["x", "--page", "0"], "--page begins at 1, and --per-page is between 1 and 100."),
        (["x", "--per-page", "1000"], "--page begins at 1, and --per-page is between 1 and 100."),
        (["x", "--page", "500000000"], "Only the first 2,000 results are ranked; ask more closely, or use filters."),
        (["x", "--freshness", "nan"], "--freshness is a number from 0 to 10."),
        (["x", "--freshness", "-1"], "--freshness is a number from 0 to 10."),
        (["  "], 'Say what to look for, for instance: python -m scripts.search "flood wall".'),
        (["x", "--type", "page"], "There is no type page; there are: url, file."),
        (["?!"], 'Say what to look for, for instance: python -m scripts.search "flood wall".'),
    ],
)
async def test_bad_arguments_are_sentences(settings: Settings, redis: object, words: list[str], sentence: str) -> None:
    """On standard error, exit code 2."""
    done = await commands.run(settings, "scripts.search", *words, EMBEDDER="none")

    assert (done.returncode, done.stderr.strip()) == (2, sentence)


async def test_without_an_embedder_it_says_so(library: Library) -> None:
    """By words, and the answer tells why; the vectors that are there are left alone."""
    done = await search(library, "weir", EMBEDDER="none")

    assert done.returncode == 0, done.stderr
    assert "page by words (EMBEDDER is none)" in done.stdout
    assert (await library.ask("weir")).by == "words and meaning"


async def test_spelling_is_corrected_and_the_answer_says_so(library: Library) -> None:
    """For people and for programs; words in quotes stay as they are."""
    wrong, quoted = await search(library, "weeir"), await search(library, '"weeir"')
    found = await library.ask("weeir")

    assert "Showing results for: weir (put words in quotes to keep them)" in wrong.stdout
    assert (wrong.returncode, quoted.returncode) == (0, 1)
    assert (found.showing_results_for, bool(found.results)) == ("weir", True)
    assert (await library.ask("weir")).showing_results_for == ""


async def test_folder_that_cannot_be_used_is_a_sentence(settings: Settings, redis: object, tmp_path: Path) -> None:
    """A file in its place, or a path that cannot be made."""
    (tmp_path / "search").write_text("not a folder")
    for path in (tmp_path, Path("/proc/nowhere")):
        done = await commands.run(settings, "scripts.search", "x", PERSISTENT_STORAGE_PATH=str(path), EMBEDDER="none")

        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        assert "cannot be used" in done.stderr


async def test_until_a_day_is_to_its_end(library: Library) -> None:
    """`--since` and `--until` of one day are that day."""
    today = datetime.now(UTC).date().isoformat()
    found = await search(library, "weir", "--since", today, "--until", today)

    assert found.returncode == 0, found.stdout


async def test_says_how_many_texts_wait(library: Library) -> None:
    """A line for people, also where nothing was found, and a number for programs; nothing where nothing waits."""
    done = await search(library, "weir")
    before = json.loads((await search(library, "weir", "--json")).stdout)
    library.site.page("/gauge", "The gauge was painted.")
    library.site.page("/", links=["/weir", "/lock", "/gauge"])
    await library.crawl()
    told = await search(library, "gauge painted")
    nothing = await search(library, "zebra", "--words")
    after = json.loads((await search(library, "gauge painted", "--json")).stdout)

    assert "wait" not in done.stdout
    assert before["pending"] == 0
    line = "1 text waits for its vectors and is found by words alone until then"
    assert told.stdout.splitlines()[1] == line
    assert nothing.stdout.splitlines() == ["Nothing found by words.", line]
    assert after["pending"] == 1
    assert after["results"][0]["url"] == library.site.url("/gauge")


async def test_help_lists_the_types(settings: Settings) -> None:
    """What `--type` may be is told before somebody guesses."""
    done = await commands.run(settings, "scripts.search", "--help")

    assert "url (articles, pages, files of repositories) or file (files of folders)" in " ".join(done.stdout.split())


def test_what_a_result_tells_of_its_page() -> None:
    """The day and where the page belongs; its host where it belongs to nothing; no date where none is known."""
    day = datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()
    article = IndexedPage("url_1", "v", categories=("news", "world"), domains=("docs",), host="e.org", published_ts=day)

    assert script._date_and_place(article) == "2026-01-31 · news · world · docs"
    assert script._date_and_place(IndexedPage("url_2", "v", host="e.org", updated_ts=day)) == "2026-01-31 · e.org"
    assert script._date_and_place(IndexedPage("file_3", "v", type="file", published_ts=1e18)) == "file"
