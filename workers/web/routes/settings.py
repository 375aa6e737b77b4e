"""The settings in force."""

from __future__ import annotations

from pydantic import Field

from core.runtime.settings_report import settings_report
from workers.web.models import AnswerModel, NoParameters
from workers.web.routing import RouteTable, StoreCall

ROUTES = RouteTable("operation")


class SettingAnswer(AnswerModel):
    """One setting."""

    name: str
    value: str = Field(description="Of a secret only whether it is set, of a URL without its password.")
    default: str
    origin: str = Field(description="default, environment, .env, or at the start if these say something else by now.")
    section: str
    text: str = Field(description="What it is for.")


class SettingsAnswer(AnswerModel):
    """All settings."""

    settings: list[SettingAnswer]


@ROUTES.add("GET", "/api/settings")
async def list_settings(call: StoreCall, _: NoParameters) -> SettingsAnswer:
    """The settings in force: value, default, where each came from. Secrets are hidden."""
    return SettingsAnswer(settings=[SettingAnswer.copied(one) for one in settings_report(call.settings)])
