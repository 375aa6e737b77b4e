"""All settings, read once from the environment and `.env`, passed down as a value.

Names carry their unit; secrets are `SecretStr`; a value we cannot use stops the start with one sentence
that names the variable.
"""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, ValidationInfo, field_validator

from core.errors import SettingsError
from core.urls.ip_addresses import AllowList

DAY_SECONDS = 86_400
ROOT = Path(__file__).resolve().parents[1]
"""The checkout: relative paths are seen from here, so that scripts work from any folder."""
VERSION = "0.1"

PROXY_FORM = "write http://host:port or http://user:password@host:port, with %-escapes for signs in the password"
FILE_SIMILARITY = 0.6
ENVIRONMENT_SIMILARITY = 0.85
"""High: GITHUB_ACTION and GITHUB_GRAPHQL_URL, which GitHub's machines set, are 0.8 of one of ours."""

CommaSeparated = tuple[str, ...]
"""A list that people write as `a, b, c`."""


def environment_values() -> dict[str, str]:
    """Return the environment, by names in lower case."""
    return {name.lower(): value for name, value in os.environ.items()}


def file_values() -> dict[str, str]:
    """Return what `.env` says, by names in lower case; nothing if there is none."""
    path = Settings.model_config["env_file"]
    if path is None or not path.is_file():
        return {}
    from dotenv import dotenv_values  # here: most people have no such file, and every command would import it

    return {name.lower(): value or "" for name, value in dotenv_values(path).items()}


class SettingsConfig(ConfigDict):
    """Says where the file is, beside what pydantic wants to know."""

    env_file: Path | None


class Settings(BaseModel):
    """Defaults work on a laptop with no configuration at all."""

    # Read by ourselves: pydantic-settings does the same and costs every process 55 ms of CPU to import.
    model_config = SettingsConfig(extra="ignore", validate_default=True, env_file=ROOT / ".env")

    def __init__(self, **given: Any) -> None:
        """The environment wins over `.env`, also where it sets a name to nothing; `given` wins over both."""
        stated = file_values() | environment_values()
        names = Settings.model_fields
        super().__init__(**{name: value for name, value in stated.items() if value and name in names} | given)

    # ── Redis ──
    redis_url: SecretStr | None = None
    queue_redis_url: SecretStr | None = None
    key_prefix: str = Field(default="", max_length=64)
    redis_timeout_seconds: float = Field(default=5.0, gt=0)
    embedded_redis_port: int = Field(default=6390, ge=1, le=65535)

    # ── files ──
    persistent_storage_path: Path = Field(default=Path("data"), validate_default=True)
    feeds_file: Path = Field(default=Path("feeds.toml"), validate_default=True)
    use_unified_state: bool = True

    # ── TTLs ──
    link_ttl_seconds: int = Field(default=2 * DAY_SECONDS, gt=0)
    attempted_ttl_seconds: int = Field(default=30 * DAY_SECONDS, gt=0)
    article_ttl_seconds: int = Field(default=7 * DAY_SECONDS, gt=0)

    # ── fetching ──
    fetch_allowed_hosts: CommaSeparated = ()
    fetch_allowed_ports: CommaSeparated = ("80", "443", "8000", "8008", "8080", "8443", "8888")
    fetch_host_gap_seconds: float = Field(default=5.0, ge=0)
    fetch_host_parallel: int | None = Field(default=None, ge=1)
    fetch_concurrency: int = Field(default=100, ge=1)
    fetch_timeout_seconds: float = Field(default=15.0, gt=0)
    fetch_max_bytes: int = Field(default=10_000_000, ge=1024)
    fetch_proxy_url: SecretStr | None = None
    robots_respect: bool = True
    user_agent: str = Field(default=f"Freshet/{VERSION} (no contact set)", min_length=1)

    # ── feeds ──
    ingest_cycle_seconds: float = Field(default=30.0, gt=0)
    ingest_min_interval_seconds: float = Field(default=300.0, gt=0)
    ingest_max_interval_seconds: float = Field(default=21_600.0, gt=0)
    tracking_param_prefixes: CommaSeparated = ("utm_", "gclid", "fbclid", "msclkid")

    # ── articles ──
    canonical_budget_seconds: float = Field(default=600.0, gt=0)
    canonical_fanout: int = Field(default=0, ge=0)
    main_text: bool = True

    # ── registry ──
    registry_table_name: str = Field(default="IngestItems", pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,62}$")
    registry_partition_strategy: Literal["host", "scheme"] = "host"
    crawl_base_interval_seconds: float = Field(default=DAY_SECONDS, gt=0)
    crawl_max_interval_seconds: float = Field(default=14 * DAY_SECONDS, gt=0)
    crawl_error_backoff_base: float = Field(default=600.0, gt=0)
    force_reindex_on_canonical_change: bool = True
    gone_after_checks: int = Field(default=3, ge=1)
    gone_ttl_seconds: int = Field(default=30 * DAY_SECONDS, gt=0)
    audit_every_checks: int = Field(default=5, ge=2)
    snapshot_days: float = Field(default=0.0, ge=0)

    # ── refresh ──
    timer_seconds: float = Field(default=10.0, gt=0)
    refresh_batch_items: int = Field(default=1000, ge=1, le=2000)
    refresh_budget_seconds: float = Field(default=240.0, gt=0)
    folder_roots: CommaSeparated = ()
    folder_list_seconds: float = Field(default=300.0, gt=0)
    github_list_seconds: float = Field(default=3600.0, gt=0)
    loss_limit_items: int = Field(default=20, ge=0)
    loss_limit_percent: float = Field(default=20.0, ge=0, le=100)

    # ── GitHub and Azure ──
    github_api_url: str = "https://api.github.com"
    github_raw_url: str = "https://raw.githubusercontent.com"
    github_web_url: str = "https://github.com"
    github_token: SecretStr | None = None
    blob_sas_token: SecretStr | None = None

    # ── SharePoint ──
    sharepoint_tenant_id: str = ""
    sharepoint_client_id: str = ""
    sharepoint_certificate_path: str = ""
    sharepoint_certificate_thumbprint: str = ""
    sharepoint_certificate_password: SecretStr | None = None
    sharepoint_access_token: SecretStr | None = None
    sharepoint_authority_url: str = "https://login.microsoftonline.com"
    sharepoint_graph_url: str = "https://graph.microsoft.com"
    sharepoint_user_agent: str = "NONISV|Freshet|Freshet/1.0"
    sharepoint_timeout_seconds: float = Field(default=60.0, gt=0)
    sharepoint_list_seconds: float = Field(default=3600.0, gt=0)
    sharepoint_downloads: int = Field(default=4, ge=1, le=32)
    crawl_reports_kept: int = Field(default=100, ge=1)

    # ── OpenAI vector stores ──
    openai_api_key: SecretStr | None = None
    openai_base_url: str = "https://api.openai.com/v1"
    openai_timeout_seconds: float = Field(default=60.0, gt=0)
    openai_wait_seconds: float = Field(default=600.0, gt=0)

    # ── embeddings ──
    embedder: Literal["local", "openai", "none"] = "local"
    search_across_languages: bool = False
    embed_api_url: str = "https://api.openai.com/v1"
    embed_api_key: SecretStr | None = None
    embed_model: str = Field(default="text-embedding-3-small", min_length=1)
    embed_dimensions: int | None = Field(default=None, ge=1)
    embed_batch: int = Field(default=32, ge=1, le=2048)
    embed_timeout_seconds: float = Field(default=60.0, gt=0)
    embed_most_tokens: int = Field(default=400, ge=16)

    # ── search ──
    search_backend: Literal["replica", "qdrant"] = "replica"
    qdrant_url: str = ""
    qdrant_api_key: SecretStr | None = None

    # ── parse children ──
    parse_processes: int = Field(default=2, ge=1)
    parse_cpu_seconds: float = Field(default=5.0, gt=0)
    parse_memory_bytes: int = Field(default=1_000_000_000, ge=200_000_000)

    # ── HTTP API ──
    api_bind: str = "127.0.0.1:8080"
    api_token: SecretStr | None = None
    api_allowed_hosts: CommaSeparated = ()
    api_requests_per_minute: int = Field(default=6000, ge=0)
    freshet_url: str = ""
    api_max_body_bytes: int = Field(default=5_000_000, ge=1024)
    websub_hub: str = ""

    # ── webhooks ──
    webhook_pending_events: int = Field(default=100_000, ge=1)

    # ── the sample site ──
    sample_change_seconds: float = Field(default=0.0, ge=0)

    # ── logs ──
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: Literal["text", "json"] = "text"

    @property
    def registry_name(self) -> str:
        """How the registry's keys begin: `ingest`, unless someone named their table."""
        return "ingest" if self.registry_table_name == "IngestItems" else self.registry_table_name

    @property
    def api_address(self) -> tuple[str, int]:
        """Return host and port of API_BIND, an IPv6 address without its brackets."""
        parts = urlsplit(f"//{self.api_bind}")
        return str(parts.hostname), int(parts.port or 0)

    @property
    def host_parallel(self) -> int | None:
        """Requests at once to one domain: as set, else 2; without a gap nobody asked for politeness, so no limit."""
        return self.fetch_host_parallel or (2 if self.fetch_host_gap_seconds else None)

    @property
    def visits_at_once(self) -> int:
        """How many pages are worked on, and leased, at once: a few more than on the wire keep everything busy; with
        rate limits, where most of them wait, ten times as many."""
        return self.fetch_concurrency * 10 if self.host_parallel else self.fetch_concurrency + 50

    @property
    def polls_at_once(self) -> int:
        """How many feeds are polled at once; they wait for their turn before they are leased."""
        return self.fetch_concurrency + 50

    @property
    def parallel_per_domain(self) -> int:
        """How many pages or feeds of one domain are worked on at once."""
        return self.host_parallel or self.fetch_concurrency

    @field_validator(
        *("fetch_allowed_hosts", "fetch_allowed_ports", "tracking_param_prefixes", "folder_roots", "api_allowed_hosts"),
        mode="before",
    )
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("persistent_storage_path", "feeds_file")
    @classmethod
    def _anchor(cls, value: Path) -> Path:
        return ROOT / value.expanduser()

    @field_validator("*")
    @classmethod
    def _one_line(cls, value: object) -> object:
        """Refuse control characters: most texts end up in a header, a URL or a log line."""
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        if isinstance(text, str):
            if any(0xD800 <= ord(char) < 0xE000 for char in text):
                raise ValueError("is not UTF-8; write it in plain letters")
            if any(ord(char) < 32 or 127 <= ord(char) < 160 for char in text):
                raise ValueError("has a line break or another control character in it; write it on one line")
        return value

    @field_validator("use_unified_state")
    @classmethod
    def _unified_state(cls, value: bool) -> bool:
        if not value:
            raise ValueError(
                "there is one state per knowledge base now, and no other way; "
                "`python -m scripts.migrate_to_unified_state --back` writes the three old files from it"
            )
        return value

    @field_validator("fetch_proxy_url")
    @classmethod
    def _proxy(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            check_proxy(value.get_secret_value())
        return value

    @field_validator("fetch_allowed_ports")
    @classmethod
    def _ports(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [port for port in value if not port.isdigit() or not 0 < int(port) < 65536]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no port; use numbers separated by commas")
        return value

    @field_validator("fetch_allowed_hosts")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        AllowList.parse(value)
        return value

    @field_validator("api_bind")
    @classmethod
    def _address(cls, value: str) -> str:
        parts = urlsplit(f"//{value}")
        try:
            is_address = bool(parts.hostname and parts.port) and value == parts.netloc and "@" not in value
        except ValueError:
            is_address = False
        if not is_address:
            raise ValueError("write host:port, such as 127.0.0.1:8080 or [::1]:8080")
        return value

    @field_validator("freshet_url")
    @classmethod
    def _base_url(cls, value: str) -> str:
        try:
            parts = urlsplit(value)
            is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            is_url = False
        if value and (not is_url or "@" in parts.netloc or parts.query or parts.fragment):
            raise ValueError("write the address of a Freshet's HTTP API, such as http://127.0.0.1:8080")
        return value

    @field_validator("websub_hub")
    @classmethod
    def _hub(cls, value: str) -> str:
        try:
            parts = urlsplit(value)
            is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
        except ValueError:
            is_url = False
        if value and not is_url:
            raise ValueError("write the address of a WebSub hub, such as https://hub.example.org/")
        return value

    @field_validator("ingest_max_interval_seconds")
    @classmethod
    def _interval(cls, value: float, info: ValidationInfo) -> float:
        if value < info.data.get("ingest_min_interval_seconds", 0):
            raise ValueError("must not be below INGEST_MIN_INTERVAL_SECONDS")
        return value


def load() -> Settings:
    """The settings of this process; `SettingsError` names the variable that cannot be used."""
    try:
        return Settings()
    except ValidationError as error:
        problems = (
            f"{str(e['loc'][0]).upper()}: {e['msg'].removeprefix('Value error, ')} (got {_shown(e)!r})"
            for e in error.errors()
        )
        raise SettingsError("Cannot start. " + "; ".join(problems) + ". See .env.example.") from None


def _shown(error: object) -> str:
    """The offending value, unless it could be a secret."""
    name = str(error["loc"][0])  # type: ignore[index]
    return "…" if name.endswith(("_url", "token", "key", "secret")) else str(error["input"])[:80]  # type: ignore[index]


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
        raise ValueError(f"is no address of a proxy; {PROXY_FORM}")


# ── names that look like settings and are none: a typo would otherwise be ignored without a word ──


def misnamed_settings() -> dict[str, str]:
    """Return sentences about names in `.env` and in the environment that are no settings, but may be meant as one."""
    return misnamed(file_values(), environment_values(), Settings.model_fields)


def misnamed(file_names: Iterable[str], environment_names: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return a sentence for each unknown name; names are compared without case.

    Every foreign name in `.env` counts, since that file is ours. The environment is everybody's: there only a name
    counts that is plainly one of ours, misspelt.
    """
    ours = frozenset(name.upper() for name in known)
    foreign = {name.upper() for name in file_names} - ours
    sentences = {name: _sentence(f".env: {name}", _nearest(name, ours, FILE_SIMILARITY)) for name in sorted(foreign)}
    for name in sorted({name.upper() for name in environment_names} - ours - foreign):
        if nearest := _nearest_of_kin(name, ours) or _misspelt(name, ours):
            sentences[name] = _sentence(name, nearest)
    return sentences


def _sentence(name: str, nearest: str | None) -> str:
    advice = f"did you mean {nearest}?" if nearest else "it is ignored. .env.example has them all."
    return f"{name} is not a setting; {advice}"


def _nearest(name: str, known: Collection[str], similarity: float) -> str | None:
    longer = [ours for ours in known if ours.startswith(f"{name}_")]  # the unit is missing: FETCH_TIMEOUT
    close = difflib.get_close_matches(name, known, 1, similarity)
    return min(longer, key=lambda ours: (len(ours), ours)) if longer else next(iter(close), None)


def _nearest_of_kin(name: str, known: Collection[str]) -> str | None:
    """Return the nearest of ours with the same first word."""
    first, _, rest = name.partition("_")
    kin = [ours for ours in known if ours.partition("_")[0].rstrip("S") == first.rstrip("S")]
    return _nearest(name, kin, ENVIRONMENT_SIMILARITY) if rest and kin else None


@functools.cache
def _misspelt(name: str, known: frozenset[str]) -> str | None:
    """Return ours with the same words in another order, or nearly the same letters; DB_LOG_LEVEL is someone else's."""
    words = sorted(name.split("_"))
    if any(name.endswith(f"_{ours}") for ours in known):
        return None
    for ours in sorted(known):
        if sorted(ours.split("_")) == words:
            return ours
    letters, plain = {ours.replace("_", ""): ours for ours in sorted(known)}, name.replace("_", "")
    # Each letter that only one of them has, and each by which one is longer, is one that differs. Without this look
    # difflib, which is slow, would compare every name of the environment at every start.
    alike = [ours for ours in letters if _least_difference(plain, ours) <= 1 - ENVIRONMENT_SIMILARITY]
    close = difflib.get_close_matches(plain, alike, 1, ENVIRONMENT_SIMILARITY)
    return letters[close[0]] if close else None


def _least_difference(name: str, other: str) -> float:
    """Return a share of letters in which two names differ at least."""
    return max(len({*name} ^ {*other}), abs(len(name) - len(other))) / (len(name) + len(other))
