"""Tokens for SharePoint: one that the operator gives, or those that the app registration's certificate buys."""

from __future__ import annotations

import threading
import time
from typing import Any
from urllib.parse import urlsplit

from core.settings import Settings
from core.sources.sharepoint.io.app_certificate import read_certificate
from core.sources.sharepoint.io.sharepoint_session import GuardedSession
from core.sources.sharepoint.remote_items import SharePointUnavailable
from core.urls.forbidden_addresses import AllowList

REFRESH_SECONDS_BEFORE_END = 300.0
MICROSOFT_AUTHORITIES = (
    "login.microsoftonline.com",
    "login.microsoftonline.us",
    "login.partner.microsoftonline.cn",
    "login.chinacloudapi.cn",
    "login.windows.net",
)
MICROSOFT_SITES = (".sharepoint.com", ".sharepoint.us", ".sharepoint-mil.us", ".sharepoint.cn", ".sharepoint.de")
_NEEDED = ("sharepoint_tenant_id", "sharepoint_client_id", "sharepoint_certificate_path")


class SharePointTokens:
    """Gives the token for one server; shared by all threads of a site."""

    def __init__(self, settings: Settings, session: GuardedSession, resource: str) -> None:
        """`resource` is the scheme and host of the server that the token is for."""
        self._settings = settings
        self._session = session
        self._scope = f"{resource}/.default"
        self._lock = threading.Lock()
        self._app: Any = None
        self._token = ""
        self._refresh_at = 0.0
        given = settings.sharepoint_access_token
        self._given = given.get_secret_value().strip() if given else ""
        if self._given:
            _check_host(settings, resource)
        else:
            _check_settings(settings)

    def __call__(self) -> dict[str, Any]:
        """Return the token for the library. It is to ask before every request: we know when to get a new one."""
        return {"access_token": self.current(), "token_type": "Bearer", "expires_in": 0}

    def current(self) -> str:
        """Return a token that is good for a while."""
        if self._given:
            return self._given
        with self._lock:
            if not self._token or time.monotonic() >= self._refresh_at:
                self._acquire()
            return self._token

    def renew(self, refused: str) -> None:
        """Get a new token because the server refused this one, unless another thread did so meanwhile."""
        with self._lock:
            if not self._given and refused == self._token:
                self._token = ""
                if self._app is not None:
                    self._app.remove_tokens_for_client()

    def _acquire(self) -> None:
        if self._app is None:
            self._app = self._open_app()
        answer = self._app.acquire_token_for_client([self._scope])
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(token, str) or not token:
            raise SharePointUnavailable(_refusal(answer))
        lifetime = answer.get("expires_in")
        seconds = float(lifetime) if isinstance(lifetime, int | float) else 0.0
        # A token of a few minutes is used for half of them.
        margin = min(REFRESH_SECONDS_BEFORE_END, seconds / 2)
        self._token, self._refresh_at = token, time.monotonic() + seconds - margin

    def _open_app(self) -> Any:
        import msal

        settings = self._settings
        certificate = read_certificate(settings)
        authority = settings.sharepoint_authority_url.rstrip("/")
        try:
            return msal.ConfidentialClientApplication(
                settings.sharepoint_client_id,
                authority=f"{authority}/{settings.sharepoint_tenant_id}",
                client_credential={"private_key": certificate.private_key, "thumbprint": certificate.thumbprint},
                # Asking Microsoft about an authority that is not theirs would tell them, and fail.
                instance_discovery=urlsplit(authority).hostname in MICROSOFT_AUTHORITIES,
                http_client=self._session,
            )
        except ValueError as error:
            raise SharePointUnavailable(
                f"{authority} gives no tokens for the tenant {settings.sharepoint_tenant_id!r}. Check "
                "SHAREPOINT_AUTHORITY_URL and SHAREPOINT_TENANT_ID."
            ) from error


def _check_host(settings: Settings, resource: str) -> None:
    """Refuse to send the operator's own token to a host that is neither Microsoft's nor named by the operator.

    The address of a site comes from Redis, where others may be able to write. Tokens bought by a certificate need no
    such check: they are made for one host.
    """
    parts = urlsplit(resource)
    host, graph = parts.hostname or "", urlsplit(settings.sharepoint_graph_url).hostname
    allowed = AllowList.parse(settings.fetch_allowed_hosts)
    if not host.endswith(MICROSOFT_SITES) and host != graph and not allowed.permits(host, parts.port or 443):
        raise SharePointUnavailable(
            f"SHAREPOINT_ACCESS_TOKEN is not sent to {host}, which is not a site of Microsoft's. "
            "If it is your SharePoint or your proxy, add it to FETCH_ALLOWED_HOSTS."
        )


def _check_settings(settings: Settings) -> None:
    missing = [name.upper() for name in _NEEDED if not getattr(settings, name).strip()]
    if missing:
        raise SharePointUnavailable(
            f"Set {', '.join(missing)}, so that Freshet may read SharePoint; docs/sharepoint.md explains the app "
            "registration. A token of your own goes into SHAREPOINT_ACCESS_TOKEN."
        )
    if not settings.sharepoint_authority_url.lower().startswith("https://"):
        raise SharePointUnavailable("SHAREPOINT_AUTHORITY_URL must begin with https://, since tokens come from there.")


def _refusal(answer: Any) -> str:
    """Return a sentence for an answer without a token; the authority's own description holds no secret of ours."""
    details = answer if isinstance(answer, dict) else {}
    code = str(details.get("error", "no reason"))[:80]
    description = " ".join(str(details.get("error_description", "")).split())[:300]
    return (
        f"No token for SharePoint ({code}). {description} Check SHAREPOINT_TENANT_ID, SHAREPOINT_CLIENT_ID, and that "
        "the certificate belongs to this app registration."
    )
