"""Texts in chunks: nothing lost, nothing too long, cut by structure, and the same after an edit elsewhere."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.models import Chunk
from core.pages.text_blocks import blocks_to_markdown, text_to_blocks
from core.pages.text_cleaning import content_hash
from core.search.chunking import (
    CHUNKER_VERSION,
    MOST_TOKENS,
    WINDOW_TOKENS,
    chunk_id,
    chunks,
    embedded_text,
    estimate_tokens,
)

WORDS = ["river", "bridge", "ledger", "harvest", "signal", "winter", "engine", "letter", "market", "garden", "window"]
MEGABYTE = 1_000_000


def of(markdown: str, most_tokens: int = MOST_TOKENS, count: Callable[[str], int] = estimate_tokens) -> list[Chunk]:
    return chunks("url_a", markdown, count, most_tokens)


def told(markdown: str, most_tokens: int = MOST_TOKENS) -> list[tuple[str, str]]:
    """Path and text of each chunk."""
    return [(" › ".join(chunk.headings), chunk.text) for chunk in of(markdown, most_tokens)]


def sentence(dice: random.Random) -> str:
    return f"{' '.join(dice.choices(WORDS, k=dice.randint(5, 20))).capitalize()} {dice.randint(0, 999)}."


def paragraph(dice: random.Random) -> str:
    return " ".join(sentence(dice) for _ in range(dice.randint(1, 5)))


def article(seed: int, paragraphs: int = 40) -> list[str]:
    dice = random.Random(seed)
    return [paragraph(dice) for _ in range(paragraphs)]


def black(text: str) -> str:
    """All that leaves ink."""
    return "".join(text.split())


@pytest.mark.parametrize(
    ("name", "markdown", "expected"),
    [
        ("nothing", "", []),
        ("white space", " \n\t\n\u3000\n", []),
        ("one word", "word", [("", "word")]),
        ("blocks are joined", "One.\n\n\n\nTwo.", [("", "One.\n\nTwo.")]),
        ("path", "# A\none\n## B\ntwo\n# C\nthree", [("A", "one"), ("A › B", "two"), ("C", "three")]),
        ("text before the first heading", "zero\n# A\none", [("", "zero"), ("A", "one")]),
        ("a level that is left out", "# A\n### C\nthree\n## B\ntwo", [("A › C", "three"), ("A › B", "two")]),
        ("same heading twice", "# A\none\n# A\ntwo", [("A", "one\n\ntwo")]),
        ("closed heading", "## A #\none", [("A", "one")]),
        ("C# is a name", "# C#\none", [("C#", "one")]),
        ("underlined", "A\n===\none\n\nB\n---\ntwo", [("A", "one"), ("A › B", "two")]),
        ("no space, no heading", "#tag\none", [("", "#tag\none")]),
        ("bare heading", "# A", [("", "A")]),
        ("bare headings below one", "# A\n## B\n## C\n### D", [("A", "B"), ("A › C", "D")]),
        ("bare heading before a full one", "# A\none\n## B\n## C\ntwo", [("A", "one\n\nB"), ("A › C", "two")]),
        ("bare heading at the end", "# A\n## B\none\n## C", [("A › B", "one"), ("A", "C")]),
        ("heading without words", "# A\n##\n# \none", [("", "A\n\none")]),
        ("heading of a thousand words", f"# {'word ' * 150}", [("", f"# {'word ' * 150}".rstrip())]),
        ("break", "one\n\n---\n\ntwo\n\n* * *", [("", "one\n\ntwo")]),
        ("list", "- a\n- b\n  - c\n\n  more of c\n\ntext", [("", "- a\n- b\n  - c\n\n  more of c\n\ntext")]),
        ("a year at the start of a line", "It was in\n1985. A year.", [("", "It was in\n1985. A year.")]),
        ("table", "| a |\n|---|\n| 1 |", [("", "| a |\n|---|\n| 1 |")]),
        ("table without outer bars", "a | b\n--- | ---\n1 | 2", [("", "a | b\n--- | ---\n1 | 2")]),
        ("heading in code", "```sh\n# not a heading\n```", [("", "```sh\n# not a heading\n```")]),
        ("fence in a longer fence", "````\n```\n# a\n````\n# B\none", [("", "````\n```\n# a\n````"), ("B", "one")]),
        ("unclosed fence", "```\nx\n# y", [("", "```\nx\n# y\n```")]),
        ("fence around nothing", "```\n```\n~~~ words\n~~~", [("", "words")]),
        ("code in one line", "```x = 1```\n# A\none", [("", "```x = 1```"), ("A", "one")]),
        ("old line ends", "# A\r\none\r\n\r\ntwo\rthree", [("A", "one\n\ntwo\nthree")]),
        ("byte order mark", "\ufeff# A\none", [("A", "one")]),
        ("escaped by our own extractor", "\\# a\n\n1985\\. A year.", [("", "\\# a\n\n1985\\. A year.")]),
    ],
)
def test_reads_structure(name: str, markdown: str, expected: list[tuple[str, str]]) -> None:
    """Headings become paths, blocks stay as they stand."""
    assert told(markdown) == expected


def test_cuts_a_long_table_between_rows() -> None:
    """Each piece has the header, each row is in one piece, in order."""
    head = "| name | value |\n| --- | --- |"
    rows = [f"| {word} {number} | {number * 7} |" for number, word in enumerate(WORDS * 6)]
    texts = [text for _, text in told("\n".join([head, *rows]), 100)]
    assert len(texts) > 5
    assert all(text.startswith(head + "\n") for text in texts)
    assert [row for text in texts for row in text.split("\n")[2:]] == rows


def test_a_new_row_changes_one_piece() -> None:
    """The header that is repeated in each piece makes no other piece new."""
    rows = [f"| {word} {number} | {number * 7} |" for number, word in enumerate(WORDS * 10)]
    known = {chunk.id for chunk in of("\n".join(["| a | b |", "|---|---|", *rows]), 100)}
    after = of("\n".join(["| a | b |", "|---|---|", *rows[:33], "| new | 1 |", *rows[33:]]), 100)
    assert len(after) > 10
    assert sum(chunk.id not in known for chunk in after) <= 2


def test_a_header_that_takes_all_the_room_is_a_row() -> None:
    """A header above half of the room is not repeated."""
    head = "| " + " | ".join(WORDS * 6) + " |\n" + "|---" * len(WORDS) * 6 + "|"
    texts = [text for _, text in told("\n".join([head, *("| 1 | 2 |" for _ in range(40))]), 60)]
    assert sum("harvest" in text for text in texts) <= len(texts) // 2
    assert black("".join(texts)) == black(head + "| 1 | 2 |" * 40)


def test_cuts_long_code_between_lines() -> None:
    """Each piece is fenced as the whole was, no line is broken, indents stay."""
    lines = [f"{'    ' * (number % 3)}{word}_{number} = {number}" for number, word in enumerate(WORDS * 8)]
    texts = [text for _, text in told("~~~python\n" + "\n".join(lines) + "\n~~~", 100)]
    assert len(texts) > 5
    assert all(text.startswith("~~~python\n") and text.endswith("\n~~~") for text in texts)
    assert [line for text in texts for line in text.split("\n")[1:-1]] == lines


def test_cuts_a_long_list_between_items() -> None:
    """No item is broken as long as each fits."""
    items = [f"- {sentence(random.Random(number))}" for number in range(60)]
    texts = [text for _, text in told("\n".join(items), 100)]
    assert len(texts) > 5
    assert [item for text in texts for item in text.split("\n")] == items


def test_keeps_what_fits_whole() -> None:
    """A table, a list and a fence that fit are each in one chunk, whatever stands around them."""
    words = article(1, 12)
    whole = ["\n".join(f"- {word}" for word in WORDS), "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |", "```\nx\n\ny\n```"]
    texts = [text for _, text in told("\n\n".join([*words[:4], whole[0], *words[4:8], whole[1], *words[8:], whole[2]]))]
    assert all(any(block in text for text in texts) for block in whole)


def test_an_announcement_stays_with_what_it_announces() -> None:
    """A cut after a line that ends in a colon is the last choice between blocks."""
    words = article(2, 30)
    texts = [text for _, text in told("\n\n".join(f"{words[n]}\n\nNote:\n\n- {words[n + 1]}" for n in range(0, 30, 2)))]
    assert len(texts) > 8
    assert sum(text.endswith("Note:") for text in texts) <= 1


@pytest.mark.parametrize(
    ("name", "one", "ends"),
    [
        ("English", "The river rose again by noon. ", "."),
        ("quotes", "“The river rose again by noon.” ", "”"),
        ("Chinese", "河水一夜之间上涨了一掌宽到中午又退了下去。", "。"),
        ("Japanese with quotes", "番人は「川は再び下がった！」", "」"),
        ("Arabic", "هل ارتفع النهر خلال الليل؟ ", "؟"),
        ("Hebrew", "הנהר עלה במשך הלילה וירד שוב. ", "."),
        ("Hindi", "नदी रात में बढ़ी और दोपहर तक फिर गिर गई। ", "।"),
    ],
)
def test_cuts_long_paragraphs_at_sentence_ends(name: str, one: str, ends: str) -> None:
    """In every script, and nothing is lost."""
    texts = [chunk.text for chunk in of(one * 80, 120)]
    assert len(texts) > 3
    assert all(text.endswith(ends) for text in texts)
    assert black("".join(texts)) == black(one * 80)


@pytest.mark.parametrize(
    ("name", "cluster"),
    [
        ("family", "👩\u200d👩\u200d👧\u200d👦"),
        ("skin tone", "👍🏽"),
        ("accents", "e\u0301\u0323"),
        ("variation", "❤\ufe0f"),
        ("Devanagari", "क\u093c\u093e"),
        ("tagged flag", "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"),
    ],
)
def test_no_cut_inside_a_character(name: str, cluster: str) -> None:
    """What is seen as one character stays one, also in a word of thousands."""
    texts = [chunk.text for chunk in of(cluster * 3000)]
    assert len(texts) > 3
    assert all(len(text) % len(cluster) == 0 and text == cluster * (len(text) // len(cluster)) for text in texts)


def test_words_before_characters() -> None:
    """A sentence without end is cut between words."""
    said = " ".join(random.Random(3).choices(WORDS, k=2000))
    texts = [chunk.text for chunk in of(said)]
    assert " ".join(texts) == said
    assert len(texts) < 2 * estimate_tokens(said) / 100


@pytest.mark.parametrize("most_tokens", [1, 7, 230, 8000])
@pytest.mark.parametrize("count", [estimate_tokens, len, lambda text: 0, lambda text: len(text) ** 2 // 50])
def test_the_cap_holds(most_tokens: int, count: Callable[[str], int]) -> None:
    """For any tokenizer and any size, also for one whose tokens do not add up."""
    code = f"```\n{'x = 1' * 50}\n```"
    markdown = "\n\n".join(["# A", *article(4, 6), "| a |\n|---|\n" + "| 1 |\n" * 40, code])
    texts = [chunk.text for chunk in of(markdown, most_tokens, count)]
    assert texts
    assert all(count(text) <= most_tokens or len(text) == 1 for text in texts)
    assert all(len(text) <= 12 * most_tokens + 12 for text in texts)


def test_an_unknown_word_is_cut_all_the_same() -> None:
    """BERT calls a word of a million letters one unknown token; nobody would find anything in it."""
    found = of("a" * MEGABYTE, count=lambda text: len(text.split()))
    assert max(len(chunk.text) for chunk in found) <= 12 * MOST_TOKENS + 12
    assert "".join(chunk.text for chunk in found) == "a" * MEGABYTE


MARKDOWN = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.sampled_from(["", "", "# A", "## B", "### C ###", "#", "---", "===", "- a", "  - b", "1. c", "| a | b |"]),
        st.sampled_from(["|---|---|", "```", "~~~~", "```py", "> q", "    code", "a | b", "--- | ---", "Word. " * 90]),
        st.sampled_from(["字。" * 200, "x" * 900, "- " + "Long item. " * 60, "| 1 | " + "cell " * 90 + "|"]),
    ),
    max_size=30,
).map("\n".join)


@settings(deadline=None)  # how long it takes depends on who else works on this machine
@given(MARKDOWN, st.integers(1, 300))
def test_any_text(markdown: str, most_tokens: int) -> None:
    """No text is refused; no chunk is empty or too long, ids differ, and all of it comes out the same again."""
    found = of(markdown, most_tokens)
    assert found == of(markdown, most_tokens)
    assert all(chunk.text.strip() for chunk in found)
    assert all(estimate_tokens(chunk.text) <= most_tokens or len(chunk.text) == 1 for chunk in found)
    assert len({chunk.id for chunk in found}) == len(found)
    assert [chunk.order for chunk in found] == list(range(len(found)))
    assert all(chunk.text_hash == content_hash(chunk.text) for chunk in found)


@given(MARKDOWN, st.integers(5, 300))
def test_no_letter_is_lost(markdown: str, most_tokens: int) -> None:
    """Every letter and digit that occurs is in a chunk or a path; without headings and fences, exactly as often."""
    found = of(markdown, most_tokens)
    kept = Counter(char for chunk in found for char in chunk.text + "".join(chunk.headings))
    given_ = Counter(char for char in markdown if char.isalnum())
    bare = {char for char in given_ if not kept[char]}
    assert bare == set()
    if not re.search(r"#|={3}|-{3}|`|~", markdown):  # no path and no frame: exactly as often
        assert all(kept[char] == number for char, number in given_.items())


@given(
    st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=30), max_size=60).map(" ".join),
    st.integers(1, 60),
)
def test_prose_is_kept_in_order(prose: str, most_tokens: int) -> None:
    """What our extractor writes as a paragraph comes back whole when chunks are joined."""
    markdown = blocks_to_markdown(text_to_blocks(prose))
    assert black("".join(chunk.text for chunk in of(markdown, most_tokens))) == black(markdown)


@given(st.text(st.characters(categories=["Cs", "Cc", "Lu", "Zs"])))
def test_broken_characters(markdown: str) -> None:
    """Lone surrogates and controls are left out, never an error."""
    assert all(chunk.text.encode() for chunk in of(markdown))


def test_equal_texts_have_ids_of_their_own() -> None:
    """The same words twice in one text are two chunks with one hash."""
    twice = of("# A\none\n# B\none\n# A\nmore\n# C\n# B\none")
    ones = [chunk for chunk in twice if chunk.text == "one"]
    assert len(ones) == 3
    assert len({chunk.id for chunk in ones}) == 3
    assert len({chunk.text_hash for chunk in ones}) == 1


def test_another_item_has_other_ids() -> None:
    """A text that moves to another item keeps its hashes, so its vectors, and no id."""
    markdown = "\n\n".join(article(5))
    one, other = chunks("url_a", markdown, estimate_tokens), chunks("url_b", markdown, estimate_tokens)
    assert [chunk.text_hash for chunk in one] == [chunk.text_hash for chunk in other]
    assert {chunk.id for chunk in one}.isdisjoint(chunk.id for chunk in other)


def test_a_new_heading_is_no_new_text() -> None:
    """Renaming a heading changes ids below it, and not one hash."""
    body = "\n\n".join(article(6))
    one, other = of(f"# Old\n\n{body}"), of(f"# New\n\n{body}")
    assert [chunk.text_hash for chunk in one] == [chunk.text_hash for chunk in other]
    assert one[0].id != other[0].id


def test_a_revert_gives_the_same_chunks() -> None:
    """A text that comes back has the ids it had; white space between words is no edit."""
    words = article(7)
    before = of("\n\n".join(words))
    assert of("\n\n".join([*words[:9], "Put in.", *words[9:]])) != before
    assert of("\n\n".join(words)) == before
    assert [chunk.id for chunk in of("\n\n\n".join(words) + "\n\n")] == [chunk.id for chunk in before]


def test_the_recipe_of_an_id_stays() -> None:
    """Ids are in people's stores: a change of the recipe needs a new chunker version."""
    assert CHUNKER_VERSION == "1"
    assert chunk_id("url_a", ("A", "B"), "00", 1) == "c_gybtxzbnmkidurwzzf3tpahfyh"
    assert chunk_id("url_a", ("A", "B"), "00", 1) != chunk_id("url_a", ("A", "B"), "00", 2)
    assert chunk_id("url_a", ("A", "B"), "00", 1) != chunk_id("url_a", ("AB",), "00", 1)


def test_an_edit_stays_where_it_is() -> None:
    """Of a long article without headings, a small edit makes two chunks new on average, seldom more than four."""
    dice = random.Random(8)
    new = []
    for seed in range(20):
        words = article(seed, 60)
        known = {chunk.text_hash for chunk in of("\n\n".join(words))}
        for _ in range(10):
            place, edited = dice.randrange(60), list(words)
            edited[place : place + dice.randint(0, 1)] = dice.choice([[], [sentence(dice)], [paragraph(dice)]])
            new.append(sum(chunk.text_hash not in known for chunk in of("\n\n".join(edited))))
    assert sum(new) / len(new) <= 2
    assert sum(number > 4 for number in new) <= len(new) / 20


def test_sizes_are_useful() -> None:
    """Chunks of an article have 100 tokens or more on average, and few are tiny."""
    sizes = [estimate_tokens(chunk.text) for seed in range(20) for chunk in of("\n\n".join(article(seed, 60)))]
    assert sum(sizes) / len(sizes) >= 100
    assert sum(size < 40 for size in sizes) <= len(sizes) / 20


HOSTILE = {
    "headings": "# A\n" * 60_000,
    "headings with a word each": "# A\nb\n# B\nb\n" * 10_000,
    "headings of all levels": "".join(f"{'#' * (number % 6 + 1)} {number}\n" for number in range(60_000)),
    "marks": "#" * MEGABYTE,
    "marks on lines": "#\n" * 300_000,
    "one word": "a" * MEGABYTE,
    "one line": "word " * 200_000,
    "Chinese without end": "字" * 200_000,
    "bars": "|" * MEGABYTE,
    "bars on lines": "|\n" * 60_000,
    "rows": "| a |\n|---|\n" + "| 1 |\n" * 40_000,
    "fences": "```\n" * 200_000,
    "unclosed fence": "```\n" + "x = 1\n" * 40_000,
    "ticks": "`" * 300_000 + "x`",
    "inner lists": "".join(f"{'  ' * (number % 300)}- x\n" for number in range(3000)),
    "items": "- x\n" * 60_000,
    "marks of items": "- " * 60_000 + "x",
    "dots": "." * 300_000,
    "dots and brackets": ".)" * 100_000,
    "question marks": "؟" * 100_000 + "a। " * 30_000,
    "marks on one letter": "a" + "\u0301" * 200_000,
    "joiners": "👩\u200d" * 80_000,
    "blank lines": "\n" * MEGABYTE,
    "spaces": " " * MEGABYTE + "x",
    "lines": "a\n" * 80_000,
    "paragraphs": "a\n\n" * 60_000,
    "underlined": "a\n===\n" * 30_000,
}


@pytest.mark.usefixtures("no_runaway")
@pytest.mark.parametrize("name", HOSTILE)
def test_floods(name: str, full: bool) -> None:
    """A flood is cut in linear time, and its chunks keep the cap."""
    flood = HOSTILE[name]
    found = of(flood if full else flood[: len(flood) // 4])
    assert all(estimate_tokens(chunk.text) <= MOST_TOKENS for chunk in found)


def test_tokens_are_counted_sparingly() -> None:
    """Each block once and each chunk of several blocks once: twice the text."""
    counted = []

    def count(text: str) -> int:
        counted.append(len(text))
        return estimate_tokens(text)

    markdown = "\n\n".join(article(9, 300))
    of(markdown, count=count)
    assert sum(counted) <= 2.1 * len(markdown)


@pytest.mark.parametrize(
    ("name", "headings", "title", "url", "expected"),
    [
        ("all", ("A", "B"), "Title", "https://a.example/bridges/?c#d", "Title › A › B › a.example/bridges\ntext"),
        ("title only", (), "Title", "", "Title\ntext"),
        ("the title is the first heading", ("title", "B"), "Title", "", "Title › B\ntext"),
        ("nothing", (), "", "", "text"),
        ("a path", (), "", "docs/bridges.md", "docs/bridges.md\ntext"),
        ("title over lines", (), " A \n title ", "", "A title\ntext"),
    ],
)
def test_embedded_text(name: str, headings: tuple[str, ...], title: str, url: str, expected: str) -> None:
    """Title, headings and address stand before the text, on a line of their own."""
    assert embedded_text(Chunk("c_a", "text", headings), title, url) == expected


@given(st.text(max_size=300), st.text(max_size=600), st.lists(st.text(max_size=100), max_size=6), st.text(max_size=200))
@settings(max_examples=200)
def test_embedded_text_never_cuts_the_text(text: str, title: str, headings: list[str], url: str) -> None:
    """What stands before the text gives way: all of it stays inside the window."""
    whole = embedded_text(Chunk("c_a", text, tuple(headings)), title, url)
    assert whole.endswith(text)
    assert estimate_tokens(whole) <= max(WINDOW_TOKENS, estimate_tokens(text))


def test_what_gives_way_first() -> None:
    """With little room the title and the nearest heading stay; a long title is cut."""
    chunk = Chunk("c_a", "word " * 230, ("Outer heading " * 20, "Inner"))
    whole = embedded_text(chunk, "A short title", "https://a.example/" + "b/" * 40)
    assert whole.startswith("A short title › Inner\nword")
    assert embedded_text(chunk, "A title " * 40).startswith("A title A title")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("one two", 2), ("one, two!", 4), ("incomprehensibly", 3), ("河水上涨", 4), ("2026", 2), ("  \n ", 0)],
)
def test_estimate(text: str, tokens: int) -> None:
    """Words, marks, long words more than once, Chinese characters one each."""
    assert estimate_tokens(text) == tokens


def test_estimate_adds_up() -> None:
    """Over a break between words, the estimate of two texts is the sum of theirs."""
    one, other = "\n\n".join(article(10)), "\n\n".join(article(11))
    assert estimate_tokens(f"{one}\n\n{other}") == estimate_tokens(one) + estimate_tokens(other)


# ── level and types ──


def test_chunks_tell_what_they_are_made_of() -> None:
    """The level of the heading above, as its mark says, and the kinds of blocks in order, each once."""
    text = (
        "Before all.\n\n# A\n\nWords.\n\n- one\n- two\n\nMore words.\n\n### B\n\n```py\nx = 1\n```\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n## Bare"
    )

    assert [(one.headings, one.level, one.types) for one in chunks("url_1", text, estimate_tokens)] == [
        ((), 0, ("text",)),
        (("A",), 1, ("text", "list")),
        (("A", "B"), 3, ("code", "table")),
        (("A",), 1, ("heading",)),
    ]


def test_pieces_of_a_long_block_keep_its_type() -> None:
    """However it is cut: between items, lines, sentences or words."""
    blocks = {
        "list": "\n".join(f"- item {n} {'with a sentence. ' * 5}" for n in range(40)),
        "code": "```\n" + "\n".join(f"x{n} = {n}" for n in range(300)) + "\n```",
        "table": "| a | b |\n|---|---|\n" + "\n".join(f"| {n} | {n} |" for n in range(300)),
        "text": "One sentence of many words. " * 200,
    }
    for kind, text in blocks.items():
        found = chunks("url_1", text, estimate_tokens, 60)

        assert len(found) > 2
        assert {one.types for one in found} == {(kind,)}
