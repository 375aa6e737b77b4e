"""Keep secrets out of what people can read: logs, error texts, link sets.

Knows secrets by the name they travel under; the value is never looked at.
"""

from __future__ import annotations

import re

# Query parameters that can only be credentials: API keys, tokens, and the signatures of Azure SAS (`sig`),
# AWS SigV4 (`X-Amz-…`) and Google signed URLs (`X-Goog-…`). A public link that carries one leaked it.
CREDENTIALS = frozenset(
    {
        *("api_key", "apikey", "api-key", "access_token", "auth_token", "refresh_token", "id_token"),
        *("client_secret", "password", "passwd", "private_key", "sig"),
        *("x-amz-signature", "x-amz-credential", "x-amz-security-token", "x-goog-signature", "x-goog-credential"),
    }
)
# These may be a secret or name something harmless (`?token=ETH`): hidden in logs, kept in links.
SUSPECTS = frozenset({"auth", "bearer", "key", "pwd", "secret", "signature", "token"})

_HIDDEN = "…"
_USERINFO = re.compile(r"(?<=://)[^/?#\s@]*@")
_PARAM = re.compile(
    r"([?&;])(" + "|".join(map(re.escape, sorted(CREDENTIALS | SUSPECTS, key=len, reverse=True))) + r")=[^&;#\s]*",
    re.IGNORECASE,
)


def redacted(text: str, known: tuple[str, ...] = ()) -> str:
    """The text with passwords in URLs, secret parameters and all known secret values replaced by `…`."""
    if "://" in text:
        text = _USERINFO.sub(_HIDDEN + "@", text)
        text = _PARAM.sub(rf"\1\2={_HIDDEN}", text)
    for value in known:
        text = text.replace(value, _HIDDEN)
    return text


def without_credentials(url: str) -> str:
    """The URL without query parameters that can only be credentials; everything else byte for byte."""
    before, mark, query = url.partition("?")
    if not mark:
        return url
    kept = "&".join(pair for pair in query.split("&") if pair.partition("=")[0].lower() not in CREDENTIALS)
    return f"{before}?{kept}" if kept else before
