"""Webhooks without I/O: filters, schedule, signatures, messages, the stored form."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from core import schedule
from core.errors import FailCode, FailDetail
from core.models import Failed
from core.outputs import webhook_message
from core.outputs.event_types import EVENT_TYPES
from core.outputs.webhook import QueueSizes, Webhook, WebhookStatus, from_hash, to_hash, webhook_json
from core.outputs.webhook_attempts import (
    MOST_ATTEMPTS,
    Attempt,
    DeliveryEnd,
    MessageFate,
    judge_failure,
    judge_status,
    next_attempt_at,
    settle,
)
from core.outputs.webhook_filter import EventFilter, EventSubject, InvalidWebhook, checked_filter
from core.outputs.webhook_message import Message
from core.settings import ROOT

NOW = 1_800_000_000.0
SECRET = webhook_message.secret_text(bytes(range(32)))
OTHER = webhook_message.secret_text(bytes(32))
NEWS = EventSubject(frozenset({"world", "trade"}), frozenset(), is_known=True)
PAGE = EventSubject(frozenset(), frozenset({"docs"}), is_known=True)
UNKNOWN = EventSubject()


# ── filters ──


@pytest.mark.parametrize(
    ("types", "event_type", "is_wanted"),
    [
        ((), "item.gone", True),
        (("item.gone",), "item.gone", True),
        (("item.gone",), "item.changed", False),
        (("item.*",), "item.changed", True),
        (("item.*",), "article.stored", False),
        (("article.stored", "item.*"), "article.stored", True),
        (("item.*",), "items", False),
    ],
)
def test_types(types: tuple[str, ...], event_type: str, is_wanted: bool) -> None:
    """A type is wanted by its name or its group; without types all are."""
    assert EventFilter(types).wants_type(event_type) is is_wanted


@pytest.mark.parametrize(
    ("wanted", "event_type", "subject", "is_wanted"),
    [
        (EventFilter(), "item.changed", UNKNOWN, True),
        (EventFilter(categories=("world",)), "article.stored", NEWS, True),
        (EventFilter(categories=("sport",)), "article.stored", NEWS, False),
        (EventFilter(categories=("world",)), "item.changed", PAGE, False),
        (EventFilter(domains=("docs",)), "item.changed", PAGE, True),
        (EventFilter(domains=("docs",)), "item.changed", NEWS, False),
        (EventFilter(categories=("world",), domains=("docs",)), "item.changed", NEWS, False),
        (EventFilter(categories=("world",)), "item.changed", UNKNOWN, False),
        (EventFilter(categories=("world",)), "item.gone", UNKNOWN, True),
        (EventFilter(categories=("sport",)), "item.gone", NEWS, False),
        (EventFilter(domains=("docs",)), "item.forgotten", UNKNOWN, True),
    ],
)
def test_subjects(wanted: EventFilter, event_type: str, subject: EventSubject, is_wanted: bool) -> None:
    """Category and domain must both fit; a removal of something unknown passes, whoever has a copy."""
    assert wanted.wants_subject(event_type, subject) is is_wanted


def test_text_decides_unless_it_was_removed() -> None:
    """A saved search looks into the text of everything but removals."""
    assert EventFilter(search="grain").needs_text("item.changed")
    assert not EventFilter(search="grain").needs_text("item.gone")
    assert not EventFilter().needs_text("item.changed")


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ({"types": ["article.store"]}, "There are no events 'article.store'"),
        ({"types": ["*"]}, "There are no events"),
        ({"types": ["nothing.*"]}, "There are no events"),
        ({"categories": [str(n) for n in range(101)]}, "at most 100"),
        ({"search": "x" * 501}, "at most 500"),
    ],
)
def test_filters_that_match_nothing_are_refused(asked: dict, part: str) -> None:
    """A misspelt type would wait for ever; the sentence says what there is."""
    with pytest.raises(InvalidWebhook, match=part.replace("*", r"\*")):
        checked_filter(**asked)


def test_filter_is_tidied() -> None:
    """Spaces and repetitions go."""
    assert checked_filter(["item.*", "item.*"], [" world"], [""], " grain ") == EventFilter(
        ("item.*",), ("world",), (), "grain"
    )


def test_every_type_can_be_asked_for() -> None:
    """The types that docs/keys.md lists for the stream are those that a filter takes."""
    [row] = re.findall(r"^\| `freshet:events` .*$", (ROOT / "docs" / "keys.md").read_text(), re.M)

    assert set(re.findall(r"`((?:article|item|run)\.\w+|healed)`", row)) == set(EVENT_TYPES)


# ── the schedule ──


def test_ten_attempts_over_75_hours() -> None:
    """Nine waits, each longer than the last, of 75 hours together; after the tenth failure there is none."""
    now, waits = NOW, []
    for failures in range(1, MOST_ATTEMPTS):
        at = next_attempt_at(failures, now, 0.5)
        assert at is not None
        waits.append(at - now)
        now = at

    assert MOST_ATTEMPTS == 10
    assert waits == pytest.approx(schedule.WEBHOOK_RETRY_SECONDS)
    assert waits == sorted(waits)
    assert 75.0 <= (now - NOW) / 3600 < 76.0
    assert next_attempt_at(MOST_ATTEMPTS, now, 0.5) is None


@pytest.mark.parametrize(
    ("failures", "chance", "retry_after", "seconds"),
    [
        (1, 0.0, None, 4.5),
        (1, 0.999999, None, 5.5),
        (2, 0.5, None, 300.0),
        (2, 0.5, 60.0, 300.0),
        (2, 0.5, 900.0, 900.0),
        (1, 0.0, 86_400.0, 86_400.0),
        (9, 0.5, None, 86_400.0),
    ],
)
def test_jitter_and_retry_after(failures: int, chance: float, retry_after: float | None, seconds: float) -> None:
    """A wait is spread by 10 % either way and never shorter than the receiver asks for."""
    assert next_attempt_at(failures, NOW, chance, retry_after) == pytest.approx(NOW + seconds, abs=0.01)


@pytest.mark.parametrize(
    ("status", "headers", "end", "retry_after"),
    [
        (200, {}, DeliveryEnd.DELIVERED, None),
        (204, {}, DeliveryEnd.DELIVERED, None),
        (299, {}, DeliveryEnd.DELIVERED, None),
        (304, {}, DeliveryEnd.FAILED, None),
        (308, {"location": "https://elsewhere.org/"}, DeliveryEnd.FAILED, None),
        (400, {}, DeliveryEnd.FAILED, None),
        (401, {}, DeliveryEnd.FAILED, None),
        (410, {}, DeliveryEnd.GONE, None),
        (429, {"retry-after": "120"}, DeliveryEnd.FAILED, 120.0),
        (503, {"retry-after": "soon"}, DeliveryEnd.FAILED, None),
        (503, {"retry-after": "9999999"}, DeliveryEnd.FAILED, 86_400.0),
    ],
)
def test_answers(status: int, headers: dict[str, str], end: DeliveryEnd, retry_after: float | None) -> None:
    """2xx is a success, 410 the end, everything else a failed attempt; redirects too."""
    attempt = judge_status(status, headers, NOW)

    assert (attempt.end, attempt.http_status, attempt.retry_after_seconds) == (end, status, retry_after)
    assert bool(attempt.reason) is (end is not DeliveryEnd.DELIVERED)
    assert ("not followed" in attempt.reason) is (300 <= status < 400)


def test_request_without_answer() -> None:
    """What kept us from an answer is the reason."""
    failed = Failed(FailCode.HTTP, FailDetail.REFUSED, "The host does not accept connections.")

    assert judge_failure(failed) == Attempt(DeliveryEnd.FAILED, 0, "The host does not accept connections.")


# ── what an attempt changes ──

FAILED = Attempt(DeliveryEnd.FAILED, 500, "The receiver answered 500.")


def test_success_clears_the_trouble() -> None:
    """Attempts and errors are gone, the event is noted."""
    webhook = Webhook("wh_1", attempts=3, attempts_of="5-0", next_attempt_ts=NOW, last_error="x", delivered=6)
    settled = settle(webhook, "5-0", Attempt(DeliveryEnd.DELIVERED, 200), NOW, 0.5)

    assert settled.fate is MessageFate.DELIVERED
    assert settled.changes == {
        "last_attempt_ts": NOW,
        "last_http_status": 200,
        "last_error": "",
        "attempts": 0,
        "attempts_of": "",
        "first_attempt_ts": 0.0,
        "next_attempt_ts": 0.0,
        "delivered": 7,
        "delivered_ts": NOW,
        "delivered_id": "5-0",
    }


def test_failures_are_counted_per_event() -> None:
    """The third failure of an event waits half an hour; another event begins anew."""
    webhook = Webhook("wh_1", attempts=2, attempts_of="5-0", first_attempt_ts=NOW - 400)
    third, first = settle(webhook, "5-0", FAILED, NOW, 0.5), settle(webhook, "6-0", FAILED, NOW, 0.5)

    assert (third.fate, third.changes["attempts"], third.changes["first_attempt_ts"]) == ("retry", 3, NOW - 400)
    assert third.changes["next_attempt_ts"] == NOW + 1_800
    assert (first.changes["attempts"], first.changes["first_attempt_ts"]) == (1, NOW)


def test_tenth_failure_is_the_last() -> None:
    """The message is dead, and the next one begins with no failures."""
    settled = settle(Webhook("wh_1", attempts=9, attempts_of="5-0", dead=1), "5-0", FAILED, NOW, 0.5)

    assert (settled.fate, settled.failures, settled.changes["dead"]) == (MessageFate.DEAD, 10, 2)
    assert (settled.changes["attempts"], settled.changes["next_attempt_ts"]) == (0, 0.0)


def test_410_disables() -> None:
    """The message stays where it is."""
    settled = settle(Webhook("wh_1"), "5-0", judge_status(410, {}, NOW), NOW, 0.5)

    assert (settled.fate, settled.changes["status"]) == (MessageFate.KEPT, WebhookStatus.DISABLED)
    assert "410" in settled.changes["status_reason"]


# ── messages and signatures ──


def verified(headers: dict[str, str], body: str, secret: str) -> object:
    """What the official library reads."""
    return Verifier(secret).verify(body, headers)


def test_official_library_accepts_our_signature() -> None:
    """Id, time and body are signed as the standard says; another secret or another body is refused."""
    now = datetime.now(UTC).timestamp()
    message = webhook_message.event_message("1763337600000-7", "item.gone", {"id": "url_ä"}, PAGE)
    headers = webhook_message.headers("wh_1", message, [SECRET], now)

    assert verified(headers, message.body, SECRET) == json.loads(message.body)
    assert headers["webhook-id"] == "wh_1_1763337600000-7"
    assert headers["Content-Type"] == "application/json"
    for secret, body in ((OTHER, message.body), (SECRET, message.body.replace("gone", "new "))):
        with pytest.raises(WebhookVerificationError):
            verified(headers, body, secret)


def test_signature_is_that_of_the_standard() -> None:
    """The example of the specification's own test vectors."""
    body = '{"test": 2432232314}'
    secret, name = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek"

    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert webhook_message.signature(secret, name, 1614265330, body) == expected


def test_both_secrets_sign_for_a_day_after_a_rotation() -> None:
    """Receivers with the old or the new secret accept it; afterwards only the new one does."""
    webhook = Webhook("wh_1", secret=SECRET, old_secret=OTHER, old_secret_until_ts=NOW + 60)
    message = Message("1-0", "item.gone", "{}")

    assert webhook.secrets_at(NOW) == (SECRET, OTHER)
    assert webhook.secrets_at(NOW + 60) == (SECRET,)
    assert len(webhook_message.headers("wh_1", message, webhook.secrets_at(NOW), NOW)["webhook-signature"].split()) == 2


def test_message_of_an_event() -> None:
    """Type, time of the event, its own fields, and what is known of its subject; its own fields win."""
    subject = EventSubject(facts={"title": "Grain", "url": "https://e.org/a"})
    message = webhook_message.event_message("1763337600123-0", "article.stored", {"url": "https://e.org/b"}, subject)

    assert json.loads(message.body) == {
        "type": "article.stored",
        "timestamp": "2025-11-17T00:00:00.123Z",
        "data": {"event_id": "1763337600123-0", "title": "Grain", "url": "https://e.org/b"},
    }


@pytest.mark.parametrize("event_id", ["0-1", f"{2**64 - 1}-0"])
def test_any_id_has_a_time(event_id: str) -> None:
    """A stream that someone filled by hand may have any id."""
    assert json.loads(webhook_message.event_message(event_id, "healed", {}, UNKNOWN).body)["timestamp"].endswith("Z")


def test_letters_that_are_none() -> None:
    """Bytes in the store that are no text do not keep a message from being sent."""
    message = webhook_message.event_message("1-0", "healed", {"id": "a\udcff"}, UNKNOWN)

    assert json.loads(message.body)["data"]["id"] == "a?"


def test_gap_has_an_id_of_its_own() -> None:
    """It names the event before it, and is not taken for that event by whoever keeps ids."""
    gap = webhook_message.gap_message("5-0", "9-0", 3, NOW)

    assert webhook_message.message_id("wh_1", gap) == "wh_1_gap_5-0"
    data = json.loads(gap.body)["data"]
    assert (data["after_id"], data["before_id"], data["lost_events"]) == ("5-0", "9-0", 3)


# ── the stored form ──


def test_stored_and_read_again() -> None:
    """Every field comes back."""
    webhook = Webhook(
        "wh_1",
        url="https://e.org/hook?n=1",
        filter=EventFilter(("item.*",), ("world",), ("docs",), 'grain "price of"'),
        secret=SECRET,
        status=WebhookStatus.PAUSED,
        read_id="5-1",
        read_count=7,
        replay_after="1-0",
        replay_before="5-2",
        next_attempt_ts=NOW + 0.5,
        lost_events=3,
    )

    assert from_hash("wh_1", to_hash(webhook)) == webhook


@pytest.mark.parametrize("damage", [{"status": "on"}, {"read_id": "here"}, {"read_id": ""}])
def test_damaged_record_sends_nothing(damage: dict[str, str]) -> None:
    """What cannot be read is disabled, with a sentence; nothing raises."""
    webhook = from_hash(
        "wh_1", to_hash(Webhook("wh_1")) | damage | {"attempts": "many", "types": "{", "replay_after": "x"}
    )

    assert (webhook.status, webhook.collects) == (WebhookStatus.DISABLED, False)
    assert "damaged" in webhook.status_reason
    assert (webhook.attempts, webhook.filter.types, webhook.replay_after) == (0, (), "")


def test_no_secret_is_told() -> None:
    """Neither the secrets nor a token in the URL are in what people see, nor in a traceback."""
    webhook = Webhook("wh_1", url="https://e.org/h?token=0123456789abcdef", secret=SECRET, old_secret=OTHER)
    told = json.dumps(webhook_json(webhook, QueueSizes(), NOW), ensure_ascii=False) + repr(webhook_json)

    for secret in (SECRET, OTHER, SECRET[6:]):
        assert secret not in told + repr(webhook)
    assert "0123456789abcdef" not in told
    assert '"secret": "whsec_…"' in told
