"""Webhooks: events are sent to URLs of yours, signed, in order, at least once.

python -m scripts.webhooks add URL             every event from now on; prints the secret, only now
    --type article.stored --type 'item.*'      only these types
    --category world --domain docs             only articles of a category, items of a domain
    --search "grain prices"                    only texts that have all these words
python -m scripts.webhooks list                all of them: what waits, what failed
python -m scripts.webhooks show ID             one, with the reason of its last failure
python -m scripts.webhooks test ID             send a test message now
python -m scripts.webhooks pause ID            send nothing; events are collected
python -m scripts.webhooks resume ID           send again, at once; also after a 410
python -m scripts.webhooks skip ID             give up the first event that waits, go on with the next
python -m scripts.webhooks dead ID             what was given up, and why
python -m scripts.webhooks replay ID --dead    deliver the dead letters once more
python -m scripts.webhooks replay ID --from 1763337600000-0    all events from this one on once more; 0: all there are
python -m scripts.webhooks rotate ID           a new secret, printed only now; the old one signs too for 24 h
python -m scripts.webhooks remove ID           with everything that waits for it

Examples:
  python -m scripts.webhooks add https://example.org/hook --type article.stored --category world
  python -m scripts.webhooks replay wh_0a1b2c3d4e5f --dead
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict

from core.net.fetcher import Fetcher
from core.outputs.io.webhook_setup import add_webhook, send_test
from core.outputs.io.webhook_store import WebhookStore
from core.outputs.webhook import Webhook
from core.outputs.webhook_attempts import DeliveryEnd
from core.runtime.terminal import echo
from core.store import connect
from core.store.event_stream import order
from core.urls.secrets import redact
from scripts import command_line
from scripts.command_names import as_typed
from scripts.tables import ago, counted, table
from scripts.webhook_page import HEAD, webhook_page, webhook_row

DEAD_SHOWN = 100
Action = Callable[[WebhookStore, str, float], Awaitable[Webhook]]


async def add(options: argparse.Namespace) -> int:
    """Add a webhook and print its secret."""
    async with command_line.open_session() as (settings, keys, client):
        webhook = await add_webhook(
            settings,
            client,
            keys,
            options.url,
            types=options.type,
            categories=options.category,
            domains=options.domain,
            search=options.search,
        )
        return await _print_with_secret(WebhookStore(client, keys), webhook, options.json, "added")


async def rotate(options: argparse.Namespace) -> int:
    async with command_line.open_session() as (_, keys, client):
        store = WebhookStore(client, keys)
        webhook = await store.rotate(options.id, await connect.now(client))
        return await _print_with_secret(store, webhook, options.json, "signed with a new secret")


async def _print_with_secret(store: WebhookStore, webhook: Webhook, as_json: bool, what: str) -> int:
    if as_json:
        [told] = await store.shown([webhook], webhook.created_ts)
        command_line.print_json(told | {"secret": webhook.secret})
        return 0
    echo(f"{webhook.id} is {what} → {redact(webhook.url)}")
    echo(f"Secret, shown only now: {webhook.secret}")
    echo(as_typed(f"`freshet webhooks test {webhook.id}` tries it out; docs/webhooks.md has a receiver."))
    return 0


async def list_webhooks(options: argparse.Namespace) -> int:
    async with command_line.open_session() as (_, keys, client):
        store, now = WebhookStore(client, keys), await connect.now(client)
        told = await store.shown(await store.read_all(), now)
    text = table(HEAD, [webhook_row(one, now) for one in told]) if told else "There is no webhook."
    return command_line.answer(told, text, as_json=options.json)


async def show(options: argparse.Namespace) -> int:
    return await _act(options, lambda store, name, _: store.require(name))


async def pause(options: argparse.Namespace) -> int:
    return await _act(options, lambda store, name, _: store.pause(name))


async def resume(options: argparse.Namespace) -> int:
    return await _act(options, lambda store, name, _: store.resume(name))


async def skip(options: argparse.Namespace) -> int:
    async def act(store: WebhookStore, name: str, now: float) -> Webhook:
        await store.skip(name, now)
        return await store.require(name)

    return await _act(options, act)


async def remove(options: argparse.Namespace) -> int:
    async with command_line.open_session() as (_, keys, client):
        webhook = await WebhookStore(client, keys).remove(options.id)
    told = {"id": webhook.id, "url": redact(webhook.url)}
    return command_line.answer(told, f"{webhook.id} is removed → {told['url']}", as_json=options.json)


async def _act(options: argparse.Namespace, act: Action) -> int:
    async with command_line.open_session() as (_, keys, client):
        store, now = WebhookStore(client, keys), await connect.now(client)
        [told] = await store.shown([await act(store, options.id, now)], now)
    return command_line.answer(told, as_typed(webhook_page(told, now)), as_json=options.json)


# ── test, dead, replay ──


async def test(options: argparse.Namespace) -> int:
    """Send a test message; the exit code is 1 if it was not taken."""
    async with command_line.open_session() as (settings, keys, client), Fetcher(settings, client, keys) as fetcher:
        attempt = await send_test(client, keys, fetcher, options.id)
    is_taken = attempt.end is DeliveryEnd.DELIVERED
    told = {"id": options.id, "is_taken": is_taken, "http_status": attempt.http_status or None}
    text = f"The receiver answered {attempt.http_status}." if is_taken else f"Not taken. {attempt.reason}"
    command_line.answer(told | {"reason": attempt.reason}, text, as_json=options.json)
    return 0 if is_taken else 1


async def dead(options: argparse.Namespace) -> int:
    """Show what was given up, newest first."""
    async with command_line.open_session() as (_, keys, client):
        letters = await WebhookStore(client, keys).dead_letters(options.id, DEAD_SHOWN)
        now = await connect.now(client)
    rows = [(one.event_id, one.type, one.attempts, ago(one.given_up_ts, now), one.reason) for one in letters]
    text = table(("EVENT", "TYPE", "ATTEMPTS", "GIVEN UP", "WHY"), rows) if rows else "Nothing was given up."
    return command_line.answer([asdict(letter) for letter in letters], text, as_json=options.json)


async def replay(options: argparse.Namespace) -> int:
    """Deliver events or dead letters once more."""
    async with command_line.open_session() as (_, keys, client):
        store = WebhookStore(client, keys)
        if options.dead:
            moved = await store.replay_dead(options.id)
            told: dict[str, object] = {"id": options.id, "dead_letters": moved}
            sentence = f"{counted(moved, 'dead letter')} will be delivered once more."
        else:
            first_id = await store.replay_from(options.id, options.from_id)
            told = {"id": options.id, "from_id": first_id}
            sentence = f"Events from {first_id} on will be delivered once more, before what waits."
            if options.from_id != "0" and order(first_id) > order(options.from_id):
                sentence += " Those before it are no longer in the stream."
    return command_line.answer(told, sentence, as_json=options.json)


def main() -> int:
    parser = command_line.parser("python -m scripts.webhooks", __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    adding = commands.add_parser("add", help="send events to a URL")
    adding.add_argument("url")
    for name, metavar in (("type", "TYPE"), ("category", "C"), ("domain", "ID")):
        adding.add_argument(
            f"--{name}", action="append", default=[], metavar=metavar, help="may be given several times"
        )
    adding.add_argument("--search", default="", metavar="QUERY", help="texts that have all these words")
    actions = {
        "show": show,
        "test": test,
        "pause": pause,
        "resume": resume,
        "skip": skip,
        "dead": dead,
        "replay": replay,
        "rotate": rotate,
        "remove": remove,
    }
    parsers = {name: commands.add_parser(name) for name in actions}
    for one in parsers.values():
        one.add_argument("id", metavar="ID")
    which = parsers["replay"].add_mutually_exclusive_group(required=True)
    which.add_argument("--from", dest="from_id", default="", metavar="EVENT", help="the id of an event; 0: all")
    which.add_argument("--dead", action="store_true", help="what was given up")
    for one in (adding, commands.add_parser("list", help="all webhooks"), *parsers.values()):
        one.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args()
    return command_line.run((actions | {"add": add, "list": list_webhooks})[options.command](options))


if __name__ == "__main__":
    sys.exit(main())
