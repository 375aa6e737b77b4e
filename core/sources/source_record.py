"""A source and its state as they are stored, and the error that tells why one cannot be read.

Apart from `core.sources.domain_schema`, which checks what people write: that takes pydantic, and reading takes none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Self

from core.errors import FreshetError
from core.sources.lastmod_trust import LastmodTrust
from core.urls.pace import hosts_of_url
from core.value_class import value_class

SOURCES_SUFFIX = "_sources"
"""`web_sources` in a domain.json are sources of the kind `web`."""


class DomainFileError(FreshetError):
    """A domain cannot be read; the message names the place."""


@value_class
class SourceRecord:
    """One source as it is stored: everything that is needed to open it, as JSON, and no secret."""

    sid: str
    """`<domain>.<source>`: the name in all its keys."""
    kind: str
    """Its line in `core.sources.io.source_kinds`."""
    domain: str
    config: Mapping[str, Any]
    signature: str = ""
    """Signature of the command that added it, where its kind needs one (`core.sources.io.read_permission`)."""

    @property
    def gap_seconds(self) -> float | None:
        """The gap between requests that was set for it; None: nothing was."""
        gap = self.config.get("gap_seconds")
        return None if gap is None else float(gap)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts for which its gap holds; none if it has no URL."""
        return hosts_of_url(str(self.config.get("url", "")), whole_domain=self.config.get("scope") == "domain")

    def to_json(self) -> str:
        """Return one line, the same for the same source."""
        fields = {"sid": self.sid, "kind": self.kind, "domain": self.domain, "config": dict(self.config)}
        fields |= {"signature": self.signature} if self.signature else {}
        return json.dumps(fields, sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        try:
            read = json.loads(text)
            sid, kind, domain = (str(read[name]) for name in ("sid", "kind", "domain"))
            return cls(sid, kind, domain, dict(read["config"]), str(read.get("signature", "")))
        except (ValueError, KeyError, TypeError):
            raise DomainFileError("A stored source cannot be read; add its domain again.") from None


@value_class
class SourceState:
    record: SourceRecord
    memory: Mapping[str, str] = field(default_factory=dict)
    is_dirty: bool = True
    """Have links changed since it was last looked which pages are still linked?"""
    lastmod_trust: LastmodTrust = field(default_factory=LastmodTrust)
    root_id: str = ""
    loss_allowed_until: float = 0.0
    listed_ts: float = 0.0
    """When its last pass came to its end."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What it has learnt about itself at visits."""
