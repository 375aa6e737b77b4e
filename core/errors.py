"""Failure codes and exceptions.

An expected failure is data: a `FailCode` with a `FailDetail` (see `models.Failed`). Exceptions stop the work:

    FreshetError
    ├── SettingsError        a setting has a value we cannot use; names the variable
    ├── NotFound             what was asked for by its id is not there
    ├── StoreUnreachable     the Redis server does not answer
    ├── FeedFileError        feeds.toml or an OPML file cannot be read
    ├── ParserUnavailable    no parse child can be started, or the pool is closed; never the body's fault
    ├── NotAFeed             these bytes are no feed of any kind we know
    ├── CutShort             a compressed body breaks off or is damaged; another try may bring all of it
    └── Damaged              a body is not compressed the way it says
"""

from __future__ import annotations

from enum import StrEnum


class FailCode(StrEnum):
    """The five kinds of failure."""

    BAD_HTML = "FAIL_BAD_HTML"
    HTTP = "FAIL_HTTP"
    TIMEOUT = "FAIL_TIMEOUT"
    PARSE = "FAIL_PARSE"
    EMPTY = "FAIL_EMPTY"


class FailDetail(StrEnum):
    """Details of a failure code."""

    NONE = ""
    CONNECT = "connect"
    DNS = "dns"
    TLS = "tls"
    REFUSED = "refused"
    RESET = "reset"
    TRUNCATED = "truncated"
    TOO_LARGE = "too_large"
    TYPE = "type"
    REDIRECTS = "redirects"
    BLOCKED = "blocked"
    ROBOTS = "robots"
    STATUS = "status"
    PROTOCOL = "protocol"
    URL = "url"
    CPU = "cpu"
    MEMORY = "memory"
    CRASH = "crash"


class FreshetError(Exception):
    """Base of everything Freshet raises on purpose; its text is a sentence for a person."""


class SettingsError(FreshetError):
    """A setting cannot be used. The message names the variable and what it may be."""


class NotFound(FreshetError):
    """There is nothing of that id. The message says how to see what there is."""


class StoreUnreachable(FreshetError):
    """The Redis server does not answer."""


class FeedFileError(FreshetError):
    """A list of feeds (TOML or OPML) cannot be read."""


class NotAFeed(FreshetError):
    """These bytes are no feed of any kind we know."""


class CutShort(FreshetError):
    """A compressed body breaks off before its end, or is damaged on the way there; another try may bring all of it."""


class Damaged(FreshetError):
    """A body is not compressed the way it says."""


class ParserUnavailable(FreshetError):
    """No parse child can be started, or the pool is closed. Says nothing about the body that was to be read."""
