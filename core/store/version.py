"""The version of the keys in a store. A program that is older than its store refuses to touch it."""

from __future__ import annotations

from core.errors import SettingsError
from core.keys import Keys
from core.registry import field_parsing
from core.store.connect import Client
from core.urls.normalise import NORMALISER_VERSION

SCHEMA_VERSION = 1


async def check(client: Client, keys: Keys) -> None:
    """Stamp a new store; refuse one that a newer Freshet wrote, with a sentence."""
    stored = field_parsing.integer(await client.hget(keys.version, "schema"))
    if stored > SCHEMA_VERSION:
        raise SettingsError(
            f"This store was written by a newer Freshet (schema {stored}, this program knows {SCHEMA_VERSION}). "
            "Update Freshet, or point REDIS_URL at another server."
        )
    await client.hset(keys.version, mapping={"schema": str(SCHEMA_VERSION), "normaliser": str(NORMALISER_VERSION)})
