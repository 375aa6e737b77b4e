"""All settings, read once from the environment and `.env`, passed down as a value.

Names carry their unit; secrets are `SecretStr`; a value we cannot use stops the start with one sentence
that names the variable.
"""

# No `from __future__ import annotations`: the types below are read, not only checked.

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from msgspec import Meta

from core import setting_names
from core.errors import SettingsError
from core.secret_text import SecretStr
from core.setting_values import (
    CHECKS,
    CommaSeparated,
    NotEmpty,
    NotNegative,
    NotNegativeInt,
    Positive,
    PositiveInt,
    read_value,
)

DAY_SECONDS = 86_400
ROOT = Path(__file__).resolve().parents[1]
"""The checkout: relative paths are seen from here, so that scripts work from any folder."""
VERSION = "0.1"


def environment_values() -> dict[str, str]:
    """Return the environment, by names in lower case."""
    return {name.lower(): value for name, value in os.environ.items()}


def file_values() -> dict[str, str]:
    """Return what `.env` says, by names in lower case; nothing if there is none."""
    path = Settings.env_file
    if path is None or not path.is_file():
        return {}
    from dotenv import dotenv_values  # here: most people have no such file, and every command would import it

    return {name.lower(): value or "" for name, value in dotenv_values(path).items()}


class Settings:
    """Defaults work on a laptop with no configuration at all.

    What is set is read and checked; a default is taken as written below, and a test reads all from .env.example.
    """

    env_file: ClassVar[Path | None] = ROOT / ".env"

    # ── Redis ──
    redis_url: SecretStr | None = None
    queue_redis_url: SecretStr | None = None
    key_prefix: Annotated[str, Meta(max_length=64)] = ""
    redis_timeout_seconds: Positive = 5.0
    embedded_redis_port: Annotated[int, Meta(ge=1, le=65535)] = 6390

    # ── files ──
    persistent_storage_path: Path = Path("data")
    feeds_file: Path = Path("feeds.toml")
    use_unified_state: bool = True

    # ── TTLs ──
    link_ttl_seconds: PositiveInt = 2 * DAY_SECONDS
    attempted_ttl_seconds: PositiveInt = 30 * DAY_SECONDS
    article_ttl_seconds: PositiveInt = 7 * DAY_SECONDS

    # ── fetching ──
    fetch_allowed_hosts: CommaSeparated = ()
    fetch_allowed_ports: CommaSeparated = ("80", "443", "8000", "8008", "8080", "8443", "8888")
    fetch_host_gap_seconds: NotNegative = 5.0
    fetch_host_parallel: PositiveInt | None = None
    fetch_concurrency: PositiveInt = 100
    fetch_timeout_seconds: Positive = 15.0
    fetch_max_bytes: Annotated[int, Meta(ge=1024)] = 10_000_000
    fetch_proxy_url: SecretStr | None = None
    robots_respect: bool = True
    user_agent: NotEmpty = f"Freshet/{VERSION} (no contact set)"

    # ── feeds ──
    ingest_cycle_seconds: Positive = 30.0
    ingest_min_interval_seconds: Positive = 300.0
    ingest_max_interval_seconds: Positive = 21_600.0
    tracking_param_prefixes: CommaSeparated = ("utm_", "gclid", "fbclid", "msclkid")

    # ── articles ──
    canonical_budget_seconds: Positive = 600.0
    canonical_fanout: NotNegativeInt = 0
    main_text: bool = True

    # ── registry ──
    registry_table_name: Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,62}$")] = "IngestItems"
    registry_partition_strategy: Literal["host", "scheme"] = "host"
    crawl_base_interval_seconds: Positive = 1.0 * DAY_SECONDS
    crawl_max_interval_seconds: Positive = 14.0 * DAY_SECONDS
    crawl_error_backoff_base: Positive = 600.0
    force_reindex_on_canonical_change: bool = True
    gone_after_checks: PositiveInt = 3
    gone_ttl_seconds: PositiveInt = 30 * DAY_SECONDS
    audit_every_checks: Annotated[int, Meta(ge=2)] = 5
    snapshot_days: NotNegative = 0.0

    # ── refresh ──
    timer_seconds: Positive = 10.0
    refresh_batch_items: Annotated[int, Meta(ge=1, le=2000)] = 1000
    refresh_budget_seconds: Positive = 240.0
    folder_roots: CommaSeparated = ()
    folder_list_seconds: Positive = 300.0
    github_list_seconds: Positive = 3600.0
    loss_limit_items: NotNegativeInt = 20
    loss_limit_percent: Annotated[float, Meta(ge=0, le=100)] = 20.0

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
    sharepoint_timeout_seconds: Positive = 60.0
    sharepoint_list_seconds: Positive = 3600.0
    sharepoint_downloads: Annotated[int, Meta(ge=1, le=32)] = 4
    crawl_reports_kept: PositiveInt = 100

    # ── OpenAI vector stores ──
    openai_api_key: SecretStr | None = None
    openai_base_url: str = "https://api.openai.com/v1"
    openai_timeout_seconds: Positive = 60.0
    openai_wait_seconds: Positive = 600.0

    # ── embeddings ──
    embedder: Literal["local", "openai", "none"] = "local"
    search_across_languages: bool = False
    embed_api_url: str = "https://api.openai.com/v1"
    embed_api_key: SecretStr | None = None
    embed_model: NotEmpty = "text-embedding-3-small"
    embed_dimensions: PositiveInt | None = None
    embed_batch: Annotated[int, Meta(ge=1, le=2048)] = 32
    embed_timeout_seconds: Positive = 60.0
    embed_most_tokens: Annotated[int, Meta(ge=16)] = 400

    # ── search ──
    search_backend: Literal["replica", "qdrant"] = "replica"
    qdrant_url: str = ""
    qdrant_api_key: SecretStr | None = None

    # ── parse children ──
    parse_processes: PositiveInt = 2
    parse_cpu_seconds: Positive = 5.0
    parse_memory_bytes: Annotated[int, Meta(ge=200_000_000)] = 1_000_000_000

    # ── HTTP API ──
    api_bind: str = "127.0.0.1:8080"
    api_token: SecretStr | None = None
    api_allowed_hosts: CommaSeparated = ()
    api_requests_per_minute: NotNegativeInt = 6000
    freshet_url: str = ""
    api_max_body_bytes: Annotated[int, Meta(ge=1024)] = 5_000_000
    websub_hub: str = ""

    # ── webhooks ──
    webhook_pending_events: PositiveInt = 100_000

    # ── the sample site ──
    sample_change_seconds: NotNegative = 0.0

    # ── logs ──
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: Literal["text", "json"] = "text"

    def __init__(self, **given: Any) -> None:
        """The environment wins over `.env`, even where it sets a name to nothing; `given` wins over both."""
        named = file_values() | environment_values()
        stated = {name: named[name] for name in Settings.names() if named.get(name)} | given
        problems = {}
        for name, value in stated.items():
            try:
                self.__dict__[name] = read_setting(name, value)
            except ValueError as error:
                problems[name] = str(error)
        if self.ingest_max_interval_seconds < self.ingest_min_interval_seconds:
            problems["ingest_max_interval_seconds"] = "must not be below INGEST_MIN_INTERVAL_SECONDS"
        if problems:
            raise SettingsError(_sentence(problems, Settings.defaults() | stated)) from None
        self.persistent_storage_path = ROOT / self.persistent_storage_path.expanduser()
        self.feeds_file = ROOT / self.feeds_file.expanduser()

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all settings, in the order of the file."""
        return tuple(name for name in cls.__annotations__ if name != "env_file")

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return the default of every setting, by name; paths as they are written."""
        return {name: getattr(cls, name) for name in cls.names()}

    def model_copy(self, update: Mapping[str, Any]) -> Self:
        """Return a copy with some values changed, which are taken as they are."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, **update)
        return copy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and dict(self) == dict(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield names and values; secrets are still hidden in them."""
        return ((name, getattr(self, name)) for name in self.names())

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self)})"

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
        """Requests at once to one domain: as set, else 2; without a gap politeness is off, so there is no limit."""
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


def load() -> Settings:
    """The settings of this process; `SettingsError` names the variable that cannot be used."""
    return Settings()


def read_setting(name: str, value: object) -> Any:
    """Return a value of a setting as its type; ValueError says why it cannot be used."""
    read = read_value(Settings.__annotations__[name], value)
    if check := CHECKS.get(name):
        check(read)
    return read


def misnamed_settings() -> dict[str, str]:
    """Return sentences about names in `.env` and in the environment that are no settings, but may be meant as one."""
    return setting_names.misnamed(file_values(), environment_values(), Settings.names())


def _sentence(problems: Mapping[str, str], stated: Mapping[str, object]) -> str:
    told = (f"{name.upper()}: {problem} (got {_shown(name, stated[name])!r})" for name, problem in problems.items())
    return f"Cannot start. {'; '.join(told)}. See .env.example."


def _shown(name: str, value: object) -> str:
    """The offending value, unless it could be a secret."""
    return "…" if name.endswith(("_url", "token", "key", "secret", "password")) else str(value)[:80]
