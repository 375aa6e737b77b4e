"""Keep secrets out of what is stored and out of what people read: URLs, error texts, logs.

`without_credentials` is for URLs that are stored, `redact` for texts. Both use the same list of names. Only for the few
names that may also mean something harmless (`?token=ETH`) is the value looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import unquote

# Names are compared in lower case and without punctuation: `Api-Key`, `api_key` and `apiKey` are one.
_NAMES = frozenset(
    {
        *("sig", "hmac", "jwt", "bearer", "authorization", "pwd", "keypairid", "authkey", "accesskeyid"),
        *("awsaccesskeyid", "googleaccessid", "ossaccesskeyid", "feedtoken", "rsstoken", "jobtoken", "usertoken"),
        *("hdnea", "hdnts", "hdntl", "qsignature", "qak"),
    }
)
_ENDINGS = (
    *("apikey", "accesskey", "secretkey", "privatekey", "subscriptionkey", "secret", "password", "passwd"),
    *("passphrase", "signature", "credential", "credentials"),
    *("accesstoken", "authtoken", "refreshtoken", "idtoken", "sessiontoken", "securitytoken", "privatetoken"),
    *("oauthtoken", "apitoken", "bearertoken"),
)
# Every parameter of these families belongs to a signature: AWS SigV4, Google V4, Alibaba.
_FAMILIES = ("xamz", "xgoog", "xoss")
# May be a secret or select a page: `?token=ETH`, `?key=intro`. Texts hide them, URLs lose them if the value is none.
# A session id may select a talk of a conference: `?sessionid=12`.
_SUSPECTS = frozenset({"token", "key", "auth", "pass", "sessionid", "sessid", "phpsessid", "jsessionid"})
_PAGING = ("page", "next", "prev", "contin", "cursor", "sync")
_HARMLESS = re.compile(r"[A-Za-z]{1,5}|[a-z]{1,24}(?:[-_][a-z]{1,24}){0,5}|\d{1,8}|0x[0-9A-Fa-f]{40}|")

# What only a signature gives a meaning: removed beside one, kept elsewhere. The first are those of an Azure SAS.
_SAS = frozenset(
    {
        *("sv", "se", "sp", "sr", "st", "spr", "sip", "ss", "srt", "sdd", "si", "ses", "sce", "scid"),
        *("skoid", "sktid", "skt", "ske", "sks", "skv", "saoid", "suoid", "rscc", "rscd", "rsce", "rscl", "rsct"),
    }
)
_COMPANIONS = {
    "sig": _SAS,
    "signature": frozenset({"expires", "policy", "keypairid", "signaturemethod", "signatureversion"}),
    "qsignature": frozenset({"qsignalgorithm", "qsigntime", "qkeytime", "qheaderlist", "qurlparamlist"}),
}
_BLOB_HOST = re.compile(r"https?://[^/?#]+\.(?:blob|dfs|file)\.core\.[^/?#]+[/?#]", re.IGNORECASE)

_HIDDEN = "…"
_PUNCTUATION = re.compile(r"[^a-z0-9]+")
_USERINFO = re.compile(r"(?<=://)[^/?#\s\"'<>]*@")
_USERINFO_IN_TEXT = re.compile(
    r"((?:redis|rediss|sentinel|unix)://)\S{0,500}@"  # a password may hold anything
    r"|((?<=:)//)[^/?#\s\"'<>]*@|(//)[^/?#\s\"'<>:@]+:[^/?#\s\"'<>]*@"
)
_ENCODED_USERINFO = re.compile(r"(?<=%2F%2F)[^/?#&\s:@]{0,100}?(?::|%3A)[^/?#&\s@]{0,100}?(?:@|%40)", re.IGNORECASE)
_NAME = re.compile(r"[?&;#]([^?&;#=\s\"'<>/]{1,80})=")
_VALUE = re.compile(r"[^&;#\s\"'<>]*")
# A URL inside a parameter of another, encoded once or several times: `?url=https%3A%2F%2Fh%2Fx%3Fsig%3D…`.
_ENCODED_PAIR = re.compile(
    r"(%(?:25)*(?:3F|26|3B|23))((?:(?!%(?:25)*3D)[^?&;#=\s/]){1,80})(=|%(?:25)*3D)"
    r"((?:(?!%(?:25)*(?:26|3B|23|20|22))[^&;#/\s\"'<>])*)",
    re.IGNORECASE,
)


# ── URLs ────────────────────────────────────────────────────────────────────────────────────────


def without_credentials(url: str) -> str:
    """Remove user name, password and secret parameters; everything else stays byte for byte."""
    if "@" in url:
        url = _USERINFO.sub("", url, count=1)
    if "=" not in url and "%3" not in url:
        return url
    url, mark, fragment = url.partition("#")
    before, question, query = url.partition("?")
    kept = _without_secret_pairs(query, bool(_BLOB_HOST.match(url)))
    fragment = _without_secret_pairs(fragment, is_blob=False)
    url = before + (question if kept or not query else "") + kept + (mark + fragment if fragment else "")
    # A URL written plainly inside a parameter of another: its secrets lose their values.
    before, mark, query = url.partition("?")
    if "?" in query or "//" in query:
        url = before + mark + _replace_values(_USERINFO.sub("", query), "")
    if "%40" in url or ("%" in url and "@" in url):
        url = _ENCODED_USERINFO.sub("", url)
    return _replace_encoded_values(url, "") if "%" in url else url


def has_credentials(url: str) -> bool:
    """Return whether the URL carries a user name, a password or a secret parameter."""
    return without_credentials(url) != url


def _without_secret_pairs(query: str, is_blob: bool) -> str:
    """Keep the pairs that are no secrets; `;` counts as a separator too, since some servers read it so."""
    if "=" not in query:
        return query
    pairs = re.split(r"(?=[&;])", query)
    names = [_plain(pair.lstrip("&;").partition("=")[0]) for pair in pairs]
    beside = _beside(names) | (_SAS if is_blob else frozenset())
    kept = [
        pair
        for name, pair in zip(names, pairs, strict=True)
        if name not in beside and not _is_secret(name, pair.partition("=")[2])
    ]
    return query if len(kept) == len(pairs) else "".join(kept).lstrip("&;")


# ── texts ───────────────────────────────────────────────────────────────────────────────────────


def redact(text: str, known: tuple[str, ...] = ()) -> str:
    """Replace passwords in URLs, secret parameters and all known secret values by `…`."""
    if "@" in text or "%40" in text:
        text = _USERINFO_IN_TEXT.sub(lambda m: f"{m[1] or m[2] or m[3]}{_HIDDEN}@", text)
        text = _ENCODED_USERINFO.sub(_HIDDEN + "%40", text)
    if "=" in text or "%" in text:
        text = _replace_values(text, _HIDDEN, _beside(_plain(match[1]) for match in _NAME.finditer(text)))
        text = _replace_encoded_values(text, _HIDDEN)
    for value in known:
        text = text.replace(value, _HIDDEN)
    return text


def _replace_encoded_values(text: str, by: str) -> str:
    def replacement(match: re.Match[str]) -> str:
        mark, name, equals, value = match.groups()
        is_secret = bool(value) and _is_secret(_plain(name), None if by else unquote(value))
        return f"{mark}{name}{equals}{by}" if is_secret else match[0]

    return _ENCODED_PAIR.sub(replacement, text)


def _replace_values(text: str, by: str, beside: Iterable[str] = ()) -> str:
    """Replace the values of secret parameters, also in a URL that is the value of another parameter."""
    parts, done = [], 0
    for named in _NAME.finditer(text):
        name = _plain(named[1])
        if named.start() < done or not (name in beside or _is_secret(name, None)):
            continue
        match = _VALUE.match(text, named.end())
        value = match[0] if match else ""
        if value and (by or _is_secret(name, value)):  # a URL keeps what is harmless, a text hides it
            parts += [text[done : named.end()], by]
            done = named.end() + len(value)
    return "".join((*parts, text[done:]))


# ── names ───────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=4_096)
def _plain(name: str) -> str:
    # Feeds that escape `&` twice leave names such as `amp;sig`.
    return _PUNCTUATION.sub("", unquote(name).lower().removeprefix("amp;"))


def _beside(names: Iterable[str]) -> set[str]:
    """Return the parameters that belong to the signatures among these."""
    return {other for name in names for other in _COMPANIONS.get(name, ())}


def _is_secret(name: str, value: str | None) -> bool:
    """Return whether a parameter of this plain name is a secret. Without a value, a suspect counts as one."""
    if name in _NAMES or name.endswith(_ENDINGS) or name.startswith(_FAMILIES):
        return True
    is_suspect = name in _SUSPECTS or (name.endswith("token") and not name.startswith(_PAGING))
    return is_suspect and (value is None or not _HARMLESS.fullmatch(value))
