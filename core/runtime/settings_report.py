"""Report the settings in force: value, default, origin, purpose. Secrets are never shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path

from core.errors import SettingsError
from core.secret_text import SecretStr
from core.settings import ROOT, Settings, environment_values, file_values, load
from core.urls.secrets import redact
from core.value_class import value_class

DOCS = ROOT / "docs" / "settings.md"
UNSET, EMPTY, HIDDEN = "unset", "empty", "set, hidden"
_ROW = re.compile(r"\| `([A-Z0-9_]+)` \| .*? \| (.*) \|")
_SECTION = re.compile(r"\| \*\*(.+?)\*\*.* \| \| \|")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


class SettingOrigin(StrEnum):
    """Where a value came from."""

    DEFAULT = "default"
    ENVIRONMENT = "environment"
    FILE = ".env"
    START = "at the start"
    """The environment and `.env` say something else by now; a restart would use that."""


@value_class
class SettingReport:
    """One setting."""

    name: str
    value: str
    """Of a secret only whether it is set, of a URL without its password."""
    default: str
    origin: SettingOrigin
    section: str
    text: str
    """What it is for, in Markdown; empty if the documentation is not here."""


@value_class
class SettingText:
    section: str = ""
    text: str = ""


def settings_report(settings: Settings) -> list[SettingReport]:
    """Return every setting in the order of the settings file."""
    texts, environment = documented(DOCS), environment_values()
    file = {name for name, value in file_values().items() if value}
    current = _current()
    reports: list[SettingReport] = []
    for name, unset in Settings.defaults().items():
        value = getattr(settings, name)
        said = texts.get(name.upper(), SettingText())
        origin = SettingOrigin.DEFAULT
        if current is not None and getattr(current, name) != value:
            origin = SettingOrigin.START
        elif name in environment:
            origin = SettingOrigin.ENVIRONMENT
        elif name in file:
            origin = SettingOrigin.FILE
        default = shown(name, unset)
        reports.append(SettingReport(name.upper(), shown(name, value), default, origin, said.section, said.text))
    return reports


def shown(name: str, value: object) -> str:
    """Return a value as it may be shown: of a secret only that it is set, of a URL no password."""
    if value is None:
        return UNSET
    if isinstance(value, SecretStr):
        secret = value.get_secret_value()
        return (redact(secret) if name.endswith("_url") else HIDDEN) if secret else UNSET
    if isinstance(value, tuple):
        return redact(", ".join(map(str, value))) or EMPTY
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"
    return redact(str(value)) or EMPTY


@cache
def documented(path: Path) -> Mapping[str, SettingText]:
    """Return what a page of the documentation says about each setting; nothing if it is not there."""
    section, texts = "", {}
    for line in path.read_text().splitlines() if path.is_file() else ():
        if row := _ROW.fullmatch(line):
            texts[row[1]] = SettingText(section, _LINK.sub(r"\1", row[2]))
        elif head := _SECTION.fullmatch(line):
            section = head[1]
    return texts


def _current() -> Settings | None:
    """Return the settings that a process would start with now; None if they cannot be used."""
    try:
        return load()
    except SettingsError:
        return None
