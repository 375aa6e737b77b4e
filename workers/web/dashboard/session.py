"""Cookies of the dashboard: who has logged in, which browser this is, and what the last action had to say."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Literal, Self

from aiohttp import web

from core.settings import Settings
from core.store import private_files
from core.value_class import value_class

KEY_FILE = "web.key"
KEY_BYTES = 32


class Signer:
    """Signs texts for one purpose each, so that a signed notice can never pass as a login."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def signature(self, purpose: str, text: str) -> str:
        """Return the signature of a text for a purpose."""
        # A cookie may hold bytes that are no UTF-8; aiohttp hands them on as lone surrogates.
        signed = f"{purpose}\0{text}".encode(errors="surrogateescape")
        return hmac.new(self._key, signed, hashlib.sha256).hexdigest()

    def is_signature(self, signature: str, purpose: str, text: str) -> bool:
        """Compare in constant time."""
        given = signature.encode(errors="surrogateescape")
        return hmac.compare_digest(given, self.signature(purpose, text).encode())

    def pack(self, purpose: str, values: dict[str, Any]) -> str:
        """Return values as a text for a cookie, with their signature."""
        text = urlsafe_b64encode(json.dumps(values).encode()).decode()
        return f"{text}.{self.signature(purpose, text)}"

    def unpack(self, purpose: str, packed: str) -> dict[str, Any] | None:
        """Return the values; None if the text is not ours, or is for another purpose."""
        text, _, signature = packed.partition(".")
        if not self.is_signature(signature, purpose, text):
            return None
        values: dict[str, Any] = json.loads(urlsafe_b64decode(text))
        return values


def open_signer(settings: Settings) -> Signer:
    """Return the signer of this deployment; makes its key at the first start."""
    path = settings.persistent_storage_path / KEY_FILE
    if not path.is_file() or len(path.read_bytes()) < KEY_BYTES:
        private_files.make_folder(path.parent)
        private_files.write_bytes(path, secrets.token_bytes(KEY_BYTES))
    token = settings.api_token.get_secret_value() if settings.api_token else ""
    return Signer(hmac.new(path.read_bytes(), token.encode(), hashlib.sha256).digest())


SIGNER: web.AppKey[Signer] = web.AppKey("signer", Signer)
LOGIN_COOKIE = "freshet_login"
BROWSER_COOKIE = "freshet_browser"
NOTICE_COOKIE = "freshet_notice"
LOGIN_SECONDS = 30 * 86_400
NOTICE_SECONDS = 60
MOST_NOTICE_CHARS = 1_000
"""Browsers drop cookies of more than 4 kB."""


@value_class
class Notice:
    """What the page after an action shows."""

    text: str
    kind: Literal["done", "failed"] = "done"

    @classmethod
    def read(cls, request: web.Request) -> Self | None:
        """Return the notice that the last action left for this browser."""
        values = request.app[SIGNER].unpack("notice", request.cookies.get(NOTICE_COOKIE, ""))
        return cls(values["text"], values["kind"]) if values else None

    def write(self, request: web.Request, response: web.StreamResponse) -> None:
        """Leave the notice for the next page."""
        packed = request.app[SIGNER].pack("notice", {"text": self.text[:MOST_NOTICE_CHARS], "kind": self.kind})
        _set_cookie(request, response, NOTICE_COOKIE, packed, NOTICE_SECONDS)


def clear_notice(response: web.StreamResponse) -> None:
    """Show a notice only once."""
    response.del_cookie(NOTICE_COOKIE, path="/")


def has_login(request: web.Request) -> bool:
    """Return whether this browser has logged in, and not too long ago."""
    values = request.app[SIGNER].unpack("login", request.cookies.get(LOGIN_COOKIE, ""))
    return values is not None and float(values["until_ts"]) > time.time()


def write_login(request: web.Request, response: web.StreamResponse) -> None:
    """Log this browser in."""
    packed = request.app[SIGNER].pack("login", {"until_ts": time.time() + LOGIN_SECONDS})
    _set_cookie(request, response, LOGIN_COOKIE, packed, LOGIN_SECONDS)


def clear_login(response: web.StreamResponse) -> None:
    """Log this browser out."""
    response.del_cookie(LOGIN_COOKIE, path="/")


def write_browser(request: web.Request, response: web.StreamResponse, browser: str) -> None:
    """Give a browser the random name to which the token of its forms is bound."""
    _set_cookie(request, response, BROWSER_COOKIE, browser, LOGIN_SECONDS)


def _set_cookie(request: web.Request, response: web.StreamResponse, name: str, value: str, seconds: int) -> None:
    is_secure = request.secure or request.headers.get("X-Forwarded-Proto") == "https"
    response.set_cookie(name, value, max_age=seconds, path="/", httponly=True, samesite="Lax", secure=is_secure)
