"""The state of a knowledge base as the hash `kb:<id>:state`: one field per value, `job.status` and the like."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime

import msgspec

from core.registry import field_parsing
from core.runs.knowledge_base_state import MOST_PENDING, SECTIONS, KbState


def field(section: str, name: str) -> str:
    """Return the hash field of a value: `job.status`."""
    return f"{section}.{name}"


def to_fields(state: KbState) -> dict[str, str]:
    fields = {"kb_id": state.kb_id, "version": str(state.version), "updated_at": state.updated_at or ""}
    for section in SECTIONS:
        values = asdict(getattr(state, section))
        fields |= {field(section, name): stored(value) for name, value in values.items()}
    return fields


def iso_milliseconds(ts: float) -> str:
    """Return a time as `updated_at` has it: `2026-01-31T12:00:00.123Z`."""
    return f"{datetime.fromtimestamp(ts, UTC).isoformat(timespec='milliseconds')[:23]}Z"


def stored(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case tuple() | list():
            return json.dumps(list(value), ensure_ascii=False)
    return str(value)


def from_fields(kb_id: str, fields: Mapping[str, str]) -> KbState:
    """Return the state from its hash; a field that is missing or cannot be read has its default."""
    sections = {
        section: {
            one.name: _read(fields[field(section, one.name)], one.type)
            for one in dataclasses.fields(kind)
            if field(section, one.name) in fields
        }
        for section, kind in SECTIONS.items()
    }
    return build(kb_id, fields.get("updated_at"), sections)


def _read(value: str, annotation: object) -> object:
    if annotation == "int":
        return field_parsing.integer(value)
    if annotation == "bool":
        return value == "true"
    if annotation == "tuple[str, ...]":
        urls = [field_parsing.text(url) for url in field_parsing.sequence(value) if isinstance(url, str)]
        return tuple(urls[:MOST_PENDING])
    text = field_parsing.text(value)
    return text if annotation == "str" else text or None


def build(kb_id: str, updated_at: object, sections: Mapping[str, Mapping[str, object]]) -> KbState:
    """Return the state from the values of its sections; raise ValueError if one is of another type."""
    try:
        return msgspec.convert({"kb_id": kb_id, "updated_at": updated_at or None, **sections}, KbState)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
