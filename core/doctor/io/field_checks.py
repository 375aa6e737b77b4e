"""Find unreadable fields and secrets in records; quarantine the damaged fields and cut the secrets out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from core.doctor.invariants import Finding, Problem
from core.keys import Keys
from core.registry import field_parsing
from core.sources.io.source_store import SourceStore
from core.sources.source_record import DomainFileError, SourceRecord
from core.store import field_types
from core.store.connect import Client
from core.store.field_types import KINDS
from core.store.key_families import key_families
from core.store.packing import packed_json
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
    "source": ("config",),
}
FIELDS: Mapping[str, list[str]] = {
    family: list(dict.fromkeys(field for table in (KINDS, URL_FIELDS, TEXT_FIELDS) for field in table.get(family, ())))
    for family in {**KINDS, **URL_FIELDS, **TEXT_FIELDS}
}
"""What is read of a hash, by family."""
MESSAGE_FIELDS = ("errorMessage", "text", "error_text")
"""Sentences, which may repeat a secret."""

# KEYS[1] the first hash · ARGV[1] JSON: by family, the names of fields (`*`: all) and the hashes. For each hash its
# values, nothing if it is of another type. By commands of a pipeline, a sample took a third of a tick's CPU time.
_READ = """
local replies = {}
for _, group in ipairs(cjson.decode(ARGV[1])) do
  local fields, names = group[1], group[2]
  for _, name in ipairs(names) do
    local reply = fields[1] == '*' and redis.pcall('HGETALL', name) or redis.pcall('HMGET', name, unpack(fields))
    if reply.err then reply = false end
    replies[#replies + 1] = reply
  end
end
return replies
"""

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
        self._families = key_families(keys)
        self._quarantine = Quarantine(client, keys)
        self._sources = SourceStore(client, keys)

    async def check(self, names: Sequence[str]) -> list[Finding]:
        known = ((name, self._families.of(name)) for name in names)
        by_family: dict[str, dict[str, None]] = {}
        for name, known_family in known:
            if known_family and known_family.name in FIELDS:
                by_family.setdefault(known_family.name, {})[name] = None
        wanted = [(family, name) for family, some in by_family.items() for name in some]
        replies = await self._read(by_family) if wanted else []
        findings: list[Finding] = []
        for (family, name), reply in zip(wanted, replies, strict=True):
            if reply is not None:
                findings += [Finding(problem, name) for problem in _problems(family, _read_fields(family, reply))]
        return findings

    async def _read(self, by_family: Mapping[str, Mapping[str, None]]) -> list[list[Any] | None]:
        """Return the values of these hashes; None for one that is of another type, which is found elsewhere."""
        groups = [(FIELDS[family], list(names)) for family, names in by_family.items()]
        replies = await self._client.eval(_READ, 1, groups[0][1][0], packed_json(groups))
        return cast(list[list[Any] | None], replies)

    async def recheck(self, findings: Sequence[Finding]) -> list[Finding]:
        return [one for one in await self.check([one.name for one in findings]) if one in findings]

    async def repair(self, findings: Sequence[Finding], now: float) -> None:
        """Put damaged fields aside, cut secrets out, and read a source again from its domain."""
        for problem, name in ((one.problem, one.name) for one in findings):
            if problem is Problem.DAMAGED_FIELDS:
                await self._quarantine.put_aside([name])
            elif problem is Problem.CREDENTIALS:
                await self._cut_secrets_out(name)
            else:
                with contextlib.suppress(DomainFileError):  # the record is gone: it was quarantined and reported
                    await self._sources.read(self._families["source"].id_in(name))

    async def _cut_secrets_out(self, name: str) -> None:
        family = self._families.of(name)
        assert family is not None
        stored = _by_field(family.name, await self._client.hmget(name, FIELDS[family.name]))
        clean = _without_secrets(family.name, stored)
        words = [word for field, new in clean.items() for word in (field, stored[field], new)]
        if words:
            await self._client.eval(_CHANGE, 1, name, *words)


def _read_fields(family: str, reply: Sequence[Any]) -> dict[str, str]:
    """Return a hash from the script's reply: of all fields come names and values in turn."""
    if field_types.EVERY_FIELD in FIELDS[family]:
        return dict(zip(reply[::2], reply[1::2], strict=True))
    return _by_field(family, reply)


def _by_field(family: str, values: Sequence[Any]) -> dict[str, str]:
    return {field: value for field, value in zip(FIELDS[family], values, strict=True) if value is not None}


def _problems(family: str, stored: Mapping[str, str]) -> Iterator[Problem]:
    if field_types.damaged(family, stored):
        yield Problem.DAMAGED_FIELDS
    elif _without_secrets(family, stored):
        yield Problem.CREDENTIALS
    if family == "source" and stored:
        config = stored.get("config", "")
        try:
            SourceRecord.from_json(config)
        except DomainFileError:
            yield Problem.SOURCE_DAMAGED
        else:
            if not field_parsing.is_text(config):
                yield Problem.SOURCE_DAMAGED


def _without_secrets(family: str, stored: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that hold a secret, as they are without it."""
    clean = {field: without_credentials(stored[field]) for field in URL_FIELDS.get(family, ()) if stored.get(field)}
    clean |= {field: redact(stored[field]) for field in MESSAGE_FIELDS if stored.get(field)}
    return {field: new for field, new in clean.items() if new != stored[field]}
