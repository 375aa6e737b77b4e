"""The settings in force."""

from __future__ import annotations

from core.runtime.settings_report import SettingReport, settings_report
from workers.web.models import AnswerModel, NoParameters, shown
from workers.web.routing import RouteTable, StoreCall

shown(SettingReport, "SettingAnswer")
ROUTES = RouteTable("operation")


class SettingsAnswer(AnswerModel):
    """All settings."""

    settings: list[SettingReport]


@ROUTES.add("GET", "/api/settings")
async def list_settings(call: StoreCall, _: NoParameters) -> SettingsAnswer:
    """The settings in force: value, default, where each came from. Secrets are hidden."""
    return SettingsAnswer(settings=settings_report(call.settings))
