"""Fields of records that cannot be read, and secrets in them. What is damaged is put aside, secrets are cut out."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from core.doctor.problems import Finding, Problem
from core.keys import Keys
from core.registry import field_parsing
from core.sources.domain import DomainFileError, SourceRecord
from core.sources.io.source_store import SourceStore
from core.store import field_types
from core.store.connect import Client
from core.store.key_families import KeyFamilies, KeyFamily
from core.store.quarantine import Quarantine
from core.urls.secrets import redact, without_credentials

URL_FIELDS: Mapping[str, tuple[str, ...]] = {
    "item": ("normalizedSource", "fetchUrl", "displaySource", "validatorsUrl", "httpCanonicalUrl", "articleUrl"),
    "article": ("url", "final_url", "canonical_url", "image"),
    "document": ("url", "image"),
    "failure": ("url",),
}
TEXT_FIELDS: Mapping[str, tuple[str, ...]] = {
    "item": ("errorMessage", "sources", "PartitionKey", "articleUid", "aliasOf", "contentHash", "indexedHash"),
    "article": ("title", "status", "content_hash"),
    "document": ("title", "content_hash"),
    "failure": ("text", "code"),
    "feed": ("error_text", "url", "fetch_url", "title"),
}
MESSAGE_FIELDS = ("errorMessage", "text", "error_text")
"""Sentences, which may repeat a secret."""

# KEYS[1] hash · ARGV triples of field, value, new value. What has changed since is left alone; how many were changed.
_CHANGE = """
local changed = 0
for i = 1, #ARGV, 3 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
    changed = changed + 1
  end
end
return changed
"""


class FieldChecks:
    """Checks hashes of some families."""

    problems = frozenset({Problem.DAMAGED_FIELDS, Problem.CREDENTIALS, Problem.SOURCE_DAMAGED})

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._families = KeyFamilies(keys)
        self._quarantine = Quarantine(client, keys)
        self._sources = SourceStore(client, keys)

    async def check(self, names: Sequence[str]) -> list[Finding]:
        """Check the fields of these keys."""
        wanted = [(name, family) for name in names if (family := self._families.of(name)) and _fields(family)]
        pipe = self._client.pipeline(transaction=False)
        for name, family in wanted:
            fields = _fields(family)
            if field_types.EVERY_FIELD in fields:
                pipe.hgetall(name)
            else:
                pipe.hmget(name, fields)
        answers = await pipe.execute(raise_on_error=False) if wanted else []
        found: list[Finding] = []
        for (name, family), answer in zip(wanted, answers, strict=True):
            if not isinstance(answer, Exception):
                found += _findings(name, family, _stored(family, answer))
        return found

    async def recheck(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return those of the findings that are still there."""
        return [one for one in await self.check([one.name for one in findings]) if one in findings]

    async def repair(self, findings: Sequence[Finding], now: float) -> None:
        """Put damaged fields aside, cut secrets out, and read a source again from its domain."""
        for problem, name in ((one.problem, one.name) for one in findings):
            if problem is Problem.DAMAGED_FIELDS:
                await self._quarantine.put_aside([name])
            elif problem is Problem.CREDENTIALS:
                await self._cut_out(name)
            else:
                await self._restore_source(name)

    async def _cut_out(self, name: str) -> None:
        family = self._families.of(name)
        assert family is not None
        stored = _stored(family, await self._client.hmget(name, _fields(family)))
        words = [
            word for field, new in _without_secrets(family, stored).items() for word in (field, stored[field], new)
        ]
        if words:
            await self._client.eval(_CHANGE, 1, name, *words)

    async def _restore_source(self, name: str) -> None:
        """What a source is, from its domain; one that nobody knows any more is put aside."""
        sid = self._families["source"].id_in(name)
        with contextlib.suppress(DomainFileError):  # then it was put aside, and named
            await self._sources.read(sid)


def _fields(family: KeyFamily) -> list[str]:
    kinds = [*field_types.KINDS.get(family.name, ())]
    more = (*URL_FIELDS.get(family.name, ()), *TEXT_FIELDS.get(family.name, ()))
    config = ["config"] if family.name == "source" else []
    return list(dict.fromkeys([*kinds, *more, *config]))


def _stored(family: KeyFamily, answer: Any) -> dict[str, str]:
    if isinstance(answer, dict):
        return answer
    return {field: value for field, value in zip(_fields(family), answer, strict=True) if value is not None}


def _findings(name: str, family: KeyFamily, stored: Mapping[str, str]) -> list[Finding]:
    found = []
    if field_types.damaged(family.name, stored):
        found.append(Finding(Problem.DAMAGED_FIELDS, name))
    elif _without_secrets(family, stored):
        found.append(Finding(Problem.CREDENTIALS, name))
    if family.name == "source" and stored and not _is_config(stored.get("config", "")):
        found.append(Finding(Problem.SOURCE_DAMAGED, name))
    return found


def _without_secrets(family: KeyFamily, stored: Mapping[str, str]) -> dict[str, str]:
    """Fields that hold a secret, as they are without it."""
    clean = {
        field: without_credentials(stored[field]) for field in URL_FIELDS.get(family.name, ()) if stored.get(field)
    }
    clean |= {field: redact(stored[field]) for field in MESSAGE_FIELDS if stored.get(field)}
    return {field: new for field, new in clean.items() if new != stored[field]}


def _is_config(text: str) -> bool:
    try:
        SourceRecord.from_json(text)
    except DomainFileError:
        return False
    return field_parsing.is_text(text)
