"""The heart as a table: every answer × every state × forced or not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.errors import FailCode, FailDetail
from core.models import Document, Failed, Fetched, Hop
from core.registry import decide, outcomes
from core.registry.decide import NO_CONTEXT, Decision, RecheckPolicy, TextAction, VisitContext, VisitResult
from core.registry.outcomes import Broken, Changed, Excluded, Missing, Moved, Outcome, Parked, Unchanged
from core.registry.page_visit import PageVisit
from core.registry.record import ERROR_CHARS, Item, Status

NOW = 2_000_000_000.0
DAY = 86_400.0
MIDDLE = 0.5
"""The chance at which jitter changes nothing."""
POLICY = RecheckPolicy(base_seconds=DAY, max_seconds=14 * DAY, error_base_seconds=600.0, gone_after_checks=3)

FRESH = Item("url_new", source="https://e.org/a", fetch_url="https://e.org/a", sources=("s",))
KNOWN = replace(
    FRESH,
    status=Status.INDEXED,
    has_text=True,
    content_hash="old",
    indexed_hash="old",
    body_hash="bytes",
    extractor_version="1",
    etag='"1"',
    validators_url="https://e.org/a",
    attempts=4,
)
FAILING = replace(KNOWN, status=Status.ERROR, failures=3, unchanged_streak=5)
MISSING = replace(KNOWN, status=Status.ERROR, has_text=False, missing_checks=2, missing_since=NOW - 2 * DAY)
MISSING_ONCE = replace(MISSING, missing_checks=1)
MISSING_TODAY = replace(MISSING, missing_since=NOW - DAY / 2)
GONE = replace(MISSING, status=Status.GONE, missing_checks=3)
OUTSIDE = replace(FRESH, status=Status.OUT_OF_SCOPE)


def visit(content_hash: str = "new", **more: object) -> PageVisit:
    facts = PageVisit(
        normalised="https://e.org/a",
        fetched_url="https://e.org/a",
        http_status=200,
        etag='"2"',
        last_modified="",
        content_length=9,
        redirects=(),
        canonical_url="",
        language="en",
        content_hash=content_hash,
        mime_type="text/html",
        extractor_version="1",
        body_hash="b",
    )
    return replace(facts, **more)


def decided(item: Item, outcome: Outcome, around: VisitContext = NO_CONTEXT, **policy: object) -> Decision:
    return decide.decide(item, outcome, NOW, MIDDLE, replace(POLICY, **policy), around)


def changed(content_hash: str = "new") -> Changed:
    return Changed(Document(content_hash=content_hash), visit(content_hash))


def retitled() -> Changed:
    return Changed(Document(content_hash="old", title="New"), visit("old"), is_new_metadata=True)


def answered(status: int, *hops: Hop, **headers: str) -> Fetched:
    return Fetched("https://e.org/a", "https://e.org/a", status, headers, b"", hops)


# ── what an answer means ──

READ = "read"
ANSWERS = [
    # status, conditional, item, meaning
    (200, False, FRESH, READ),
    (203, False, KNOWN, READ),
    (304, True, KNOWN, Unchanged),
    (304, False, KNOWN, Broken),
    (304, True, FRESH, Broken),
    (304, True, MISSING, Broken),
    (401, False, KNOWN, Broken),
    (403, True, KNOWN, Broken),
    (404, False, FRESH, Missing),
    (404, True, KNOWN, Missing),
    (410, True, KNOWN, Missing),
    (429, True, KNOWN, Broken),
    (500, True, KNOWN, Broken),
    (503, True, FRESH, Broken),
    (204, False, KNOWN, Broken),
    (206, False, KNOWN, Broken),
    (301, False, KNOWN, Broken),
    (302, False, KNOWN, Broken),
    (308, False, KNOWN, Broken),
]


@pytest.mark.parametrize(("status", "conditional", "item", "meaning"), ANSWERS)
def test_status_has_one_meaning(status: int, conditional: bool, item: Item, meaning: object) -> None:
    """Each status means the same for every item in the same state; a 3xx that arrives here led nowhere."""
    outcome = outcomes.from_response(item, answered(status), conditional, NOW)

    assert outcome is None if meaning is READ else isinstance(outcome, meaning)


FAILURES = [
    (FailCode.TIMEOUT, FailDetail.NONE, Broken, Broken),
    (FailCode.HTTP, FailDetail.DNS, Broken, Broken),
    (FailCode.HTTP, FailDetail.RESET, Broken, Broken),
    (FailCode.HTTP, FailDetail.ROBOTS, Excluded, Excluded),
    (FailCode.HTTP, FailDetail.TOO_LARGE, Excluded, Broken),
    (FailCode.PARSE, FailDetail.TYPE, Excluded, Broken),
    (FailCode.HTTP, FailDetail.BLOCKED, Excluded, Broken),
    (FailCode.PARSE, FailDetail.CPU, Broken, Broken),
    (FailCode.EMPTY, FailDetail.NONE, Excluded, Broken),
    (FailCode.BAD_HTML, FailDetail.NONE, Excluded, Broken),
]


@pytest.mark.parametrize(("code", "detail", "without_text", "with_text"), FAILURES)
def test_failure_has_one_meaning(code: FailCode, detail: FailDetail, without_text: type, with_text: type) -> None:
    """What is not for us is left out, unless we have a text of it: that is not given up for a bad day."""
    failed = Failed(code, detail, "why")
    read = code in (FailCode.EMPTY, FailCode.BAD_HTML, FailCode.PARSE)

    def meaning(item: Item) -> Outcome | None:
        if read:
            return outcomes.from_document(item, visit(), failed, extractor_version="1")
        return outcomes.from_response(item, failed, False, NOW)

    assert isinstance(meaning(FRESH), without_text)
    assert isinstance(meaning(KNOWN), with_text)


DOCUMENTS = [
    ("another text", KNOWN, "new", "", True, Changed),
    ("the same text", KNOWN, "old", "", True, Unchanged),
    ("the same text, forced", replace(KNOWN, generation=2, processed_generation=1), "old", "", True, Changed),
    ("the same text by an older reader", replace(KNOWN, extractor_version="0"), "old", "", True, Changed),
    ("the same text, ours is lost", replace(KNOWN, has_text=False), "old", "", True, Changed),
    ("a first visit", FRESH, "new", "", True, Changed),
    ("another canonical", replace(KNOWN, canonical_url="https://e.org/b"), "old", "https://e.org/c", True, Changed),
    (
        "the same, not wanted",
        replace(KNOWN, canonical_url="https://e.org/b"),
        "old",
        "https://e.org/c",
        False,
        Unchanged,
    ),
    ("the same canonical", replace(KNOWN, canonical_url="https://e.org/b"), "old", "https://e.org/b", True, Unchanged),
]


@pytest.mark.parametrize(
    ("name", "item", "text", "canonical", "force", "meaning"), DOCUMENTS, ids=lambda v: str(v)[:30]
)
def test_text_has_one_meaning(name: str, item: Item, text: str, canonical: str, force: bool, meaning: type) -> None:
    """Equal texts are unchanged, unless somebody or something asks for more."""
    facts = visit(text, canonical_url=canonical)

    outcome = outcomes.from_document(
        item, facts, Document(content_hash=text), extractor_version="1", force_on_canonical=force
    )

    assert isinstance(outcome, meaning)


def test_canonical_change_forces_once() -> None:
    """The canonical that forced is stored with the text, so that the next visit is quiet."""
    item = replace(KNOWN, canonical_url="https://e.org/b")
    facts = visit("old", canonical_url="https://e.org/c")
    first = outcomes.from_document(item, facts, Document(content_hash="old"), extractor_version="1")
    assert isinstance(first, Changed)
    stored = decided(item, first).fields["httpCanonicalUrl"]

    again = outcomes.from_document(
        replace(item, canonical_url=stored), facts, Document(content_hash="old"), extractor_version="1"
    )

    assert isinstance(again, Unchanged)


# ── what is decided ──

TIMEOUT = Broken(Failed(FailCode.TIMEOUT, text="It took too long."))
BUSY = Broken(Failed(FailCode.HTTP, FailDetail.STATUS, "HTTP 429", 429, retry_after_seconds=7200.0))
CLOSED = Broken(Failed(FailCode.HTTP, FailDetail.STATUS, "HTTP 403", 403))
ROBOTS = Excluded("robots.txt does not allow it.", is_by_robots=True)
TYPE = Excluded("This is no page (image/png).")
NOINDEX = Excluded("The page asks not to be indexed.", is_withdrawn=True)

TABLE = [
    # name, item, outcome, status, count, text, wait, event
    ("first text", FRESH, changed(), Status.CRAWLED, VisitResult.CHANGED, TextAction.REPLACE, DAY, "item.changed"),
    ("new text", KNOWN, changed(), Status.CRAWLED, VisitResult.CHANGED, TextAction.REPLACE, DAY, "item.changed"),
    (
        "new text after failures",
        FAILING,
        changed(),
        Status.CRAWLED,
        VisitResult.CHANGED,
        TextAction.REPLACE,
        DAY,
        "item.changed",
    ),
    (
        "text comes back",
        MISSING,
        changed("old"),
        Status.CRAWLED,
        VisitResult.CHANGED,
        TextAction.REPLACE,
        DAY,
        "item.changed",
    ),
    (
        "gone comes back",
        GONE,
        changed("old"),
        Status.CRAWLED,
        VisitResult.CHANGED,
        TextAction.REPLACE,
        DAY,
        "item.changed",
    ),
    (
        "outside comes in",
        OUTSIDE,
        changed(),
        Status.CRAWLED,
        VisitResult.CHANGED,
        TextAction.REPLACE,
        DAY,
        "item.changed",
    ),
    ("another title", KNOWN, retitled(), Status.INDEXED, VisitResult.CHANGED, TextAction.REPLACE, DAY, "item.changed"),
    ("304", KNOWN, Unchanged(), Status.INDEXED, VisitResult.UNCHANGED, TextAction.KEEP, DAY, ""),
    ("304 after failures", FAILING, Unchanged(), Status.INDEXED, VisitResult.UNCHANGED, TextAction.KEEP, 14 * DAY, ""),
    (
        "equal text",
        KNOWN,
        Unchanged(200, visit=visit("old")),
        Status.INDEXED,
        VisitResult.UNCHANGED,
        TextAction.KEEP,
        DAY,
        "",
    ),
    ("404", KNOWN, Missing(404), Status.ERROR, VisitResult.GONE, TextAction.HIDE, DAY / 2, "item.gone"),
    ("404 at first sight", FRESH, Missing(404), Status.ERROR, VisitResult.FAILED, TextAction.KEEP, DAY / 2, ""),
    ("second 404", MISSING_ONCE, Missing(404), Status.ERROR, VisitResult.FAILED, TextAction.KEEP, DAY / 2, ""),
    (
        "third 404 within a day",
        MISSING_TODAY,
        Missing(404),
        Status.ERROR,
        VisitResult.FAILED,
        TextAction.KEEP,
        DAY / 2,
        "",
    ),
    ("third 404", MISSING, Missing(404), Status.GONE, VisitResult.UNCHANGED, TextAction.DELETE, 14 * DAY, ""),
    ("404 of the gone", GONE, Missing(404), Status.GONE, VisitResult.UNCHANGED, TextAction.DELETE, 14 * DAY, ""),
    ("410", KNOWN, Missing(410), Status.GONE, VisitResult.GONE, TextAction.DELETE, 14 * DAY, "item.gone"),
    ("410 at first sight", FRESH, Missing(410), Status.GONE, VisitResult.FAILED, TextAction.DELETE, 14 * DAY, ""),
    (
        "listed nowhere",
        KNOWN,
        Missing(404, True),
        Status.GONE,
        VisitResult.GONE,
        TextAction.DELETE,
        14 * DAY,
        "item.gone",
    ),
    ("timeout", KNOWN, TIMEOUT, Status.ERROR, VisitResult.FAILED, TextAction.KEEP, 600, ""),
    ("fourth timeout", FAILING, TIMEOUT, Status.ERROR, VisitResult.FAILED, TextAction.KEEP, 4800, ""),
    ("timeout of the gone", GONE, TIMEOUT, Status.GONE, VisitResult.FAILED, TextAction.KEEP, 600, ""),
    ("429", KNOWN, BUSY, Status.ERROR, VisitResult.FAILED, TextAction.KEEP, 7200, ""),
    ("403", KNOWN, CLOSED, Status.ERROR, VisitResult.FAILED, TextAction.KEEP, 600, ""),
    ("robots", KNOWN, ROBOTS, Status.OUT_OF_SCOPE, VisitResult.EXCLUDED, TextAction.KEEP, DAY, ""),
    ("noindex", KNOWN, NOINDEX, Status.OUT_OF_SCOPE, VisitResult.EXCLUDED, TextAction.DELETE, DAY, "item.gone"),
    ("noindex at first sight", FRESH, NOINDEX, Status.OUT_OF_SCOPE, VisitResult.EXCLUDED, TextAction.KEEP, DAY, ""),
    ("wrong type", FRESH, TYPE, Status.OUT_OF_SCOPE, VisitResult.EXCLUDED, TextAction.KEEP, DAY, ""),
    (
        "alias",
        KNOWN,
        Moved("url_b", visit()),
        Status.INDEXED,
        VisitResult.UNCHANGED,
        TextAction.DELETE,
        DAY,
        "item.moved",
    ),
]


@pytest.mark.parametrize("forced", [False, True], ids=["", "forced"])
@pytest.mark.parametrize(
    ("name", "item", "outcome", "status", "count", "text", "wait", "event"), TABLE, ids=lambda v: str(v)[:24]
)
def test_decision(
    name: str,
    item: Item,
    outcome: Outcome,
    status: Status,
    count: VisitResult,
    text: TextAction,
    wait: float,
    event: str,
    forced: bool,
) -> None:
    """Every outcome in every state has its row; force changes what is asked, not what an answer means."""
    decision = decided(replace(item, generation=int(forced)), outcome)
    if forced and decision.text is TextAction.REPLACE:
        status = Status.CRAWLED  # a force makes search look at it again

    assert (decision.status, decision.count, decision.text, decision.event) == (status, count, text, event)
    assert decision.next_at == pytest.approx(NOW + wait)
    assert decision.fields["lastChecked"]
    assert decision.fields["status"] == status
    assert decision.fields["crawlAttempts"] == str(item.attempts + 1)


@pytest.mark.parametrize(("name", "item", "outcome"), [row[:3] for row in TABLE], ids=lambda v: str(v)[:24])
def test_force_is_done_when_the_visit_came_to_an_end(name: str, item: Item, outcome: Outcome) -> None:
    """A force is spent by an answer, not by a failure."""
    decision = decided(replace(item, generation=3, processed_generation=2), outcome)
    is_spent = decision.count is not VisitResult.FAILED or isinstance(outcome, Missing)

    assert decision.fields["processedGeneration"] == ("3" if is_spent else "2")
    assert decision.fields["reindexRequested"] == ("false" if is_spent else "true")


@pytest.mark.parametrize(("name", "item", "outcome"), [row[:3] for row in TABLE], ids=lambda v: str(v)[:24])
def test_force_made_meanwhile_is_not_lost(name: str, item: Item, outcome: Outcome) -> None:
    """The generation moved while we were at it: due at once, still requested; only what we began with is processed."""
    decision = decided(replace(item, generation=3, processed_generation=3), outcome, VisitContext(generation=4))

    assert decision.fields["processedGeneration"] == "3"
    assert decision.fields["reindexRequested"] == "true"
    if decision.count is not VisitResult.FAILED:
        assert decision.next_at == NOW


def test_equal_text_read_anew_is_unchanged() -> None:
    """Forced, or read by another version: the fields are written, search looks again only if it was forced."""
    forced = decided(replace(KNOWN, generation=1, unchanged_streak=1), changed("old"))
    unforced = decided(replace(KNOWN, unchanged_streak=1), changed("old"))

    assert (forced.status, forced.count, forced.text, forced.event) == ("Crawled", "unchanged", "replace", "")
    assert (unforced.status, unforced.count, unforced.text, unforced.event) == ("Indexed", "unchanged", "replace", "")
    assert forced.fields["unchangedStreak"] == unforced.fields["unchangedStreak"] == "2"
    assert "lastChanged" not in forced.fields


@pytest.mark.parametrize(
    ("checks", "words"), [(0, "1 of 3 checks"), (1, "2 of 3 checks"), (2, "a day after"), (8, "a day after")]
)
def test_missing_says_what_it_waits_for(checks: int, words: str) -> None:
    """Never more checks than are needed: after enough of them it waits for the day to be over."""
    since = {"missing_since": NOW - 100} if checks else {}
    message = decided(replace(KNOWN, missing_checks=checks, **since), Missing(404)).fields["errorMessage"]

    assert words in message


@pytest.mark.parametrize(
    ("outcome", "seconds"),
    [
        (Broken(Failed(FailCode.TIMEOUT)), 600),
        (Broken(Failed(FailCode.HTTP, FailDetail.STATUS, "", 503, 7_200)), 7_200),
        (Broken(Failed(FailCode.PARSE, FailDetail.CPU)), DAY),
        (Missing(404), DAY / 2),
        (Missing(410), 14 * DAY),
        (Unchanged(), DAY),
    ],
)
def test_record_says_the_interval_it_waits(outcome: Outcome, seconds: float) -> None:
    """`crawlIntervalSeconds` is what the next check was scheduled by, also after an error."""
    decision = decided(KNOWN, outcome)

    assert float(decision.fields["crawlIntervalSeconds"]) == seconds
    assert decision.next_at == pytest.approx(NOW + seconds)


def test_unchanged_page_tells_its_new_address() -> None:
    """A redirect in front of a page that has not changed: the chain and the canonical address are written."""
    chain = ("https://e.org/a",)
    moved = decided(KNOWN, Unchanged(304, redirects=chain, canonical_url="https://e.org/b")).fields
    back = decided(replace(KNOWN, redirect_chain='["https://e.org/a"]'), Unchanged(304)).fields
    as_ever = decided(KNOWN, Unchanged(304)).fields

    assert (moved["httpRedirectChain"], moved["httpCanonicalUrl"]) == ('["https://e.org/a"]', "https://e.org/b")
    assert back["httpRedirectChain"] == "[]"
    assert "httpRedirectChain" not in as_ever


def test_touched_file_has_its_new_date() -> None:
    """The same bytes with another modification time: `fileLastModified` follows."""
    file = replace(KNOWN, type="file")
    fields = decided(file, Unchanged(200, last_modified="Thu, 13 Nov 2025 02:13:20 GMT")).fields

    assert fields["fileLastModified"] == "2025-11-13T02:13:20Z"


def test_robots_that_allow_again_are_told() -> None:
    """A 304 after a check that robots.txt forbade."""
    fields = decided(replace(KNOWN, status=Status.OUT_OF_SCOPE), Unchanged(304)).fields

    assert fields["httpRobotsAllowed"] == "true"


def test_ladder_is_climbed_by_two_and_left_by_a_change() -> None:
    """1, 1, 3, 3, 7, 7, 14, 14 days, and a change begins anew."""
    days, item = [], KNOWN
    for _ in range(8):
        decision = decided(item, Unchanged())
        days.append(round(float(decision.fields["crawlIntervalSeconds"]) / DAY))
        item = replace(item, unchanged_streak=int(decision.fields["unchangedStreak"]))

    assert days == [1, 3, 3, 7, 7, 14, 14, 14]
    assert decided(item, changed()).fields["unchangedStreak"] == "0"
    assert decided(item, changed()).fields["crawlIntervalSeconds"] == "86400"


@pytest.mark.parametrize(("chance", "factor"), [(0.0, 0.9), (0.5, 1.0), (0.999999, 1.1)])
def test_jitter_is_a_tenth_each_way(chance: float, factor: float) -> None:
    """Items stored together are not checked together."""
    decision = decide.decide(KNOWN, Unchanged(), NOW, chance, POLICY)

    assert decision.next_at == pytest.approx(NOW + DAY * factor, rel=1e-6)


def test_maximum_and_special_caps_hold() -> None:
    """CRAWL_MAX_INTERVAL_SECONDS, the life of an article and the root of a site keep intervals short."""
    patient = replace(KNOWN, unchanged_streak=20)

    assert decided(patient, Unchanged(), max_seconds=5 * DAY).next_at == NOW + 5 * DAY
    assert decide.decide(patient, Unchanged(), NOW, MIDDLE, POLICY.capped(3 * DAY)).next_at == NOW + 3 * DAY


def test_backoff_doubles_to_a_day() -> None:
    """600 s, doubling, never more than a day."""
    waits = [decided(replace(KNOWN, failures=n), TIMEOUT).next_at - NOW for n in range(10)]  # type: ignore[operator]

    assert waits[:4] == [600, 1200, 2400, 4800]
    assert waits[-1] == DAY
    assert decided(replace(KNOWN, failures=1000), TIMEOUT).next_at == NOW + DAY


def test_three_404_within_an_hour_are_no_tombstone() -> None:
    """Evidence needs a day."""
    item = replace(MISSING, missing_since=NOW - 3600)

    assert decided(item, Missing(404)).status is Status.ERROR
    assert decided(replace(item, missing_since=NOW - DAY), Missing(404)).status is Status.GONE


def test_a_site_that_is_down_loses_nothing() -> None:
    """With the root failing too, a 404 is no strike and hides nothing."""
    decision = decided(KNOWN, Missing(404), VisitContext(is_site_down=True))

    assert (decision.status, decision.text, decision.event) == (Status.ERROR, TextAction.KEEP, "")
    assert "missingChecks" not in decision.fields


def test_too_great_a_loss_is_refused() -> None:
    """What would be too much stays, and the record says why."""
    decision = decided(KNOWN, Missing(410), VisitContext(loss_refused="30 of 40 would go."))

    assert (decision.text, decision.event) == (TextAction.KEEP, "")
    assert decision.fields["errorMessage"] == "30 of 40 would go."


def test_success_clears_every_trouble() -> None:
    """errorMessage, failures and strikes end with the first good answer."""
    for outcome in (changed(), Unchanged()):
        fields = decided(replace(FAILING, missing_checks=2), outcome).fields
        assert (fields["errorMessage"], fields["consecutiveFailures"], fields["missingChecks"]) == ("", "0", "0")


def test_long_errors_are_cut() -> None:
    """1,024 characters at most."""
    told = Broken(Failed(FailCode.HTTP, FailDetail.STATUS, "x" * 5000))

    assert len(decided(KNOWN, told).fields["errorMessage"]) == ERROR_CHARS


def test_poison_is_parked() -> None:
    """Not due any more, with a sentence that says how to go on."""
    decision = decided(KNOWN, Parked(3))

    assert (decision.status, decision.next_at, decision.text) == (Status.ERROR, None, TextAction.KEEP)
    assert "scripts.reindex" in decision.fields["errorMessage"]
    assert decision.fields["nextCrawlAt"] == ""


def test_304_may_bring_new_validators() -> None:
    """They are kept; without new ones the old ones stay."""
    assert decided(KNOWN, Unchanged(304, '"9"', "then")).fields["httpEtag"] == '"9"'
    assert "httpEtag" not in decided(KNOWN, Unchanged()).fields


def test_robots_are_told_apart() -> None:
    """httpRobotsAllowed is false only where robots.txt spoke."""
    assert decided(KNOWN, ROBOTS).fields["httpRobotsAllowed"] == "false"
    assert decided(FRESH, TYPE).fields["httpRobotsAllowed"] == "true"


ASKED = [
    ("as usual", KNOWN, {}, True),
    ("no validators", replace(KNOWN, etag=""), {}, False),
    ("no text", replace(KNOWN, has_text=False), {}, False),
    ("forced", replace(KNOWN, generation=1), {}, False),
    ("older reader", replace(KNOWN, extractor_version="0"), {}, False),
    ("older reader, snapshot", replace(KNOWN, extractor_version="0"), {"has_snapshot": True}, True),
    ("a host that lies", KNOWN, {"is_trusted": False}, False),
    ("fourth check", replace(KNOWN, conditional_streak=3), {}, True),
    ("fifth check", replace(KNOWN, conditional_streak=4), {}, False),
]


@pytest.mark.parametrize(("name", "item", "more", "is_conditional"), ASKED, ids=lambda v: str(v)[:24])
def test_validators_are_sent_only_if_a_304_would_help(
    name: str, item: Item, more: dict[str, bool], is_conditional: bool
) -> None:
    """The text must be there, by this reader, unforced, from an honest host; and every fifth check asks for it all."""
    options = {"extractor_version": "1", "has_snapshot": False, "is_trusted": True, "audit_every": 5, **more}

    assert decide.should_ask_conditionally(item, **options) is is_conditional
