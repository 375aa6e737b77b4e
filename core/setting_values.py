"""Read the value of a setting as people write it, and refuse what cannot be used with a sentence.

Our own, since every command reads settings: with pydantic that took a fifth of the CPU time of `freshet status`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Meta

from core.secret_text import SecretStr
from core.urls.forbidden_addresses import AllowList

CommaSeparated = tuple[str, ...]
"""A list that people write as `a, b, c`."""
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
PositiveInt = Annotated[int, Meta(ge=1)]
NotNegativeInt = Annotated[int, Meta(ge=0)]
NotEmpty = Annotated[str, Meta(min_length=1)]

WORDS = dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True)
WORDS |= dict.fromkeys(("0", "off", "f", "false", "n", "no"), False)
PROXY_FORM = "write http://host:port or http://user:password@host:port, with %-escapes for signs in the password"


def read_value(kind: Any, value: object) -> Any:
    """Return a value as its type, `Annotated` with limits or not; ValueError says what it should be."""
    choices = get_args(kind)
    if type(None) in choices:
        if value is None:
            return None
        (kind,) = (one for one in choices if one is not type(None))
    if get_origin(kind) is Literal:
        return _one_of(get_args(kind), value)
    base = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    read = _READERS[base](value)
    _require_one_line(read)
    try:
        return read if base in (SecretStr, Path) else msgspec.convert(read, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def _one_of(choices: tuple[str, ...], value: object) -> str:
    if value not in choices:
        raise ValueError(f"should be {', '.join(choices[:-1])} or {choices[-1]}")
    return str(value)


def _boolean(value: object) -> bool:
    try:
        return value if isinstance(value, bool) else WORDS[str(value).strip().lower()]
    except KeyError:
        raise ValueError("should be true or false") from None


def _integer(value: object) -> int:
    try:
        number = float(str(value))
        return int(str(value)) if not number.is_integer() or abs(number) > 1e15 else int(number)
    except (ValueError, OverflowError):
        raise ValueError("should be a whole number") from None


def _number(value: object) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ValueError("should be a number")
    return number


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("should be a text")
    return value


def _secret(value: object) -> SecretStr:
    return value if isinstance(value, SecretStr) else SecretStr(_text(value))


def _path(value: object) -> Path:
    return value if isinstance(value, Path) else Path(_text(value))


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, list) else value


_READERS: Mapping[object, Callable[[object], object]] = {
    bool: _boolean,
    int: _integer,
    float: _number,
    str: _text,
    SecretStr: _secret,
    Path: _path,
    CommaSeparated: _split,
}


def _require_one_line(value: object) -> None:
    """Refuse control characters: most texts end up in a header, a URL or a log line."""
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if isinstance(text, str):
        if any(0xD800 <= ord(char) < 0xE000 for char in text):
            raise ValueError("is not UTF-8; write it in plain letters")
        if any(ord(char) < 32 or 127 <= ord(char) < 160 for char in text):
            raise ValueError("has a line break or another control character in it; write it on one line")


# ── what single settings have to be ──


def check_unified_state(value: bool) -> None:
    """Raise ValueError if the three old files are wanted back as the state."""
    if not value:
        raise ValueError(
            "there is one state per knowledge base now, and no other way; "
            "`python -m scripts.migrate_to_unified_state --back` writes the three old files from it"
        )


def check_proxy(text: str) -> None:
    """Raise ValueError if this is no address of an HTTP proxy."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"cannot be read as an address; {PROXY_FORM}") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"only HTTP proxies can be used; {PROXY_FORM}")
    has_more = parts.path not in ("", "/") or parts.query or parts.fragment
    if not host or " " in text or port == 0 or has_more:
        raise ValueError(f"is not the address of a proxy; {PROXY_FORM}")


def _check_secret_proxy(value: SecretStr | None) -> None:
    if value is not None:
        check_proxy(value.get_secret_value())


def _check_ports(value: tuple[str, ...]) -> None:
    wrong = [port for port in value if not port.isdigit() or not 0 < int(port) < 65536]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is not a port; use numbers separated by commas")


def _check_hosts(value: tuple[str, ...]) -> None:
    AllowList.parse(value)


def _check_bind(value: str) -> None:
    parts = urlsplit(f"//{value}")
    try:
        is_address = bool(parts.hostname and parts.port) and value == parts.netloc and "@" not in value
    except ValueError:
        is_address = False
    if not is_address:
        raise ValueError("write host:port, such as 127.0.0.1:8080 or [::1]:8080")


def _check_base_url(value: str) -> None:
    parts = _web_address(value)
    if value and (parts is None or parts.query or parts.fragment):
        raise ValueError("write the address of a Freshet's HTTP API, such as http://127.0.0.1:8080")


def _check_hub(value: str) -> None:
    if value and _web_address(value) is None:
        raise ValueError("write the address of a WebSub hub, such as https://hub.example.org/")


def _web_address(value: str) -> SplitResult | None:
    """Return the parts of an http or https URL without credentials; None if it is none."""
    try:
        parts = urlsplit(value)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return None
    return parts if is_url and "@" not in parts.netloc else None


CHECKS: Mapping[str, Callable[[Any], None]] = {
    "use_unified_state": check_unified_state,
    "fetch_proxy_url": _check_secret_proxy,
    "fetch_allowed_ports": _check_ports,
    "fetch_allowed_hosts": _check_hosts,
    "api_bind": _check_bind,
    "freshet_url": _check_base_url,
    "websub_hub": _check_hub,
}
"""By name of the setting; ValueError says what is wrong with a value."""
