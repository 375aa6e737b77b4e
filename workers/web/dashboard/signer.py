"""Sign what browsers keep for us: cookies that only this deployment can write, each for one purpose."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from core.settings import Settings
from core.store import private_files

KEY_FILE = "web.key"
KEY_BYTES = 32


class Signer:
    """Signs texts for one purpose each, so that a signed notice can never pass as a login."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def signature(self, purpose: str, text: str) -> str:
        # A cookie may hold bytes that are not UTF-8; aiohttp hands them on as lone surrogates.
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
