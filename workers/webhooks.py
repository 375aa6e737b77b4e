"""The webhook sender: deliver events to those who subscribed to them.

python -m workers.webhooks          as they happen
python -m workers.webhooks --once   what can be delivered now, for cron
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Coroutine

from redis.exceptions import RedisError

from core.outputs.io.webhook_service import open_service
from core.runtime import logs, signals
from core.runtime.process_beats import WEBHOOKS, ProcessBeats
from core.settings import Settings, load
from core.store import connect, redis_health
from core.store.connect import Client

log = logging.getLogger("webhooks")


async def _main(settings: Settings, once: bool) -> None:
    logs.configure(settings)
    async with (
        redis_health.open_when_ready(settings, once=once) as (client, keys),
        open_service(settings, client, keys) as service,
    ):
        if once:
            attempts = await service.run_once()
            if attempts:
                log.info("📤 %d attempts to deliver", attempts)
            return
        async with ProcessBeats(client, keys).running(WEBHOOKS):
            while True:
                await _until_unavailable(service.run_forever(), settings, client)


async def _until_unavailable(work: Coroutine[object, object, None], settings: Settings, client: Client) -> None:
    """Run until cancelled; if Redis fails meanwhile, log it and wait."""
    try:
        await work
    except (RedisError, OSError) as error:
        log.error("⚠️ Broken off: %s", redis_health.explain(error, connect.url_of(settings)))
        await redis_health.wait_for_server(client, settings)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m workers.webhooks", description=__doc__.splitlines()[0])
    parser.add_argument("--once", action="store_true", help="deliver what can be delivered now, then end")
    once = parser.parse_args().once
    return signals.run_until_stopped(lambda: _main(load(), once))


if __name__ == "__main__":
    sys.exit(main())
