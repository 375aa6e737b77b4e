"""The settings in force, read-only: value, default, where each came from."""

from __future__ import annotations

import re
from typing import Any

from core.runtime.settings_report import SettingReport
from workers.web.dashboard.page_table import PageTable
from workers.web.models import NoParameters, RequestModel
from workers.web.routes.settings import list_settings
from workers.web.routing import Call

ROUTES = PageTable()
BADGES = {"default": "quiet", "environment": "good", ".env": "good", "at the start": "warn"}
_CODE = re.compile(r"(`[^`]+`)")


class SettingsPageRequest(RequestModel):
    """Which settings."""

    changed: str = ""
    """Anything: only those that are not as by default."""


@ROUTES.page("/settings", "Settings", "settings.html")
async def show_settings(call: Call, asked: SettingsPageRequest) -> dict[str, Any]:
    found = (await list_settings(call, NoParameters())).settings
    chosen = [one for one in found if one.origin != "default"] if asked.changed else found
    sections: dict[str, list[SettingReport]] = {}
    for one in chosen:
        sections.setdefault(one.section or "Everything else", []).append(one)
    return {
        "sections": sections.items(),
        "badges": BADGES,
        "is_changed_only": bool(asked.changed),
        "total": len(found),
        "changed": sum(1 for one in found if one.origin != "default"),
        "parts": lambda text: [(part.strip("`"), part.startswith("`")) for part in _CODE.split(text) if part],
        "seconds": seconds,
    }


def seconds(name: str, value: str) -> float | None:
    """Return the length of time that a setting is, if it is one that reads better in another unit."""
    is_time = name.endswith("_SECONDS") and re.fullmatch(r"\d+(\.\d+)?", value)
    return float(value) if is_time and float(value) >= 90 else None
