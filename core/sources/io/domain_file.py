"""Read a domain as people write it: a `domain.json`, or one word that names a source.

What cannot be used is one sentence that names its place (`web_sources[0].scope: …`) and never repeats a value, which
may be a secret.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import GenericAlias
from typing import Any

from pydantic import ValidationError, create_model

from core.settings import Settings
from core.sources.domain_schema import GITHUB_URL, SLUG, Domain, SourceConfig, folder_id
from core.sources.io import source_kinds
from core.sources.io.domain_folder import MOST_FILE_BYTES, read_file
from core.sources.source_record import SOURCES_SUFFIX, DomainFileError

_NO_NAME = "is not a name; use letters without accents, 0-9, _ and -, at most 63 characters"
_PROBLEMS = {
    "extra_forbidden": "is not a key that Freshet knows",
    "missing": "is missing",
    "string_pattern_mismatch": _NO_NAME,
}


@cache  # when first needed: it takes the files of all sources, which most commands do without
def _models() -> dict[str, type[SourceConfig]]:
    return {f"{kind}{SOURCES_SUFFIX}": model for kind, model in source_kinds.config_models().items()}


@cache
def _domain_model() -> type[Domain]:
    fields = {name: (GenericAlias(tuple, (model, ...)), ()) for name, model in _models().items()}
    made: type[Domain] = create_model("Domain", __base__=Domain, **fields)  # type: ignore[call-overload]
    return made


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def load_domain(what: str, settings: Settings, domain_id: str | None = None) -> Domain:
    """Return the domain that a domain.json, an address or a folder describes, under an id of one's own if given.

    Raises DomainFileError.
    """
    if is_domain_file(what):
        domain = _load_file(Path(what))
    else:
        domain = parse_quick(what, str(Path.cwd()), web_url=settings.github_web_url)
        for _, source in domain.models():
            if problem := source.problem():
                raise DomainFileError(problem)
    return domain if domain_id is None else renamed(domain, domain_id)


def renamed(domain: Domain, domain_id: str) -> Domain:
    """Return a domain under an id of one's own; raise DomainFileError if that is none."""
    if not re.fullmatch(SLUG, domain_id):
        raise DomainFileError(f"id: {_NO_NAME}.")
    return domain.model_copy(update={"id": domain_id})


def is_domain_file(what: str) -> bool:
    """Return whether this names a file, rather than a site, a repository or a folder."""
    return "://" not in what and Path(what).is_file()


def parse_file(path: Path, data: bytes) -> Domain:
    """Return the domain of a file with these bytes; raise DomainFileError, a sentence that begins with the path."""
    try:
        if len(data) > MOST_FILE_BYTES:
            raise DomainFileError(f"is larger than a domain can be ({MOST_FILE_BYTES:,} bytes).")
        return parse_domain(data.decode(), str(path.absolute().parent))
    except UnicodeDecodeError:
        raise DomainFileError(f"{path}: is not UTF-8 text.") from None
    except DomainFileError as error:
        raise DomainFileError(f"{path}: {error}") from None


def _load_file(path: Path) -> Domain:
    try:
        return parse_file(path, read_file(path))
    except OSError as error:
        raise DomainFileError(f"{path}: cannot be read ({error.strerror}).") from None


def parse_domain(text: str, folder: str, home: str | None = None) -> Domain:
    """Return the domain of a domain.json in this folder; without an `id` it is called like the folder.

    Raises DomainFileError.
    """
    fields = _object(text)
    if not {"id", "domain_id"} & fields.keys():
        fields["id"] = folder_id(folder)
    return _domain(fields, folder, home)


def parse_quick(text: str, folder: str, home: str | None = None, web_url: str = GITHUB_URL) -> Domain:
    """Return a domain of one source: a web address, a GitHub repository's address, or a folder.

    Raises DomainFileError.
    """
    word = text.strip()
    if word.lower().startswith("www."):
        word = f"https://{word}"
    # The last line of the table first: an address on GitHub is one of the web too.
    for name, model in reversed(_models().items()):
        config = model.recognise(word, web_url)
        if config is not None:
            domain = _domain({"id": "quick", name: [config]}, folder, home)
            title = domain.models()[0][1].title()[:200]
            return domain.model_copy(update={"id": next(domain.source_ids()), "name": title})
    raise DomainFileError(f"{word[:80]!r} names no source.")


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object, each key once."""
    try:
        read = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_each_once)
    except json.JSONDecodeError as error:
        raise DomainFileError(f"This is not JSON: {error.msg} in line {error.lineno}, column {error.colno}.") from None
    except RecursionError:
        raise DomainFileError("This is not a domain: it is nested too deeply.") from None
    if not isinstance(read, dict):
        raise DomainFileError('A domain is a JSON object: {"id": "…", "web_sources": […]}.')
    return read


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    repeated = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
    if repeated:
        raise DomainFileError(f"{repeated[0][:80]}: is there twice.")
    return dict(pairs)


def _domain(read: Mapping[str, Any], folder: str, home: str | None) -> Domain:
    try:
        # By way of JSON: only there are lists as good as tuples to a strict reader.
        domain = _domain_model().model_validate_json(json.dumps(read), context={"folder": folder, "home": home})
    except ValidationError as error:
        raise DomainFileError(_sentence(error)) from None
    _refuse_repeats(domain)
    return domain if domain.name else domain.model_copy(update={"name": domain.id})


def _refuse_repeats(domain: Domain) -> None:
    if not domain.models():
        *most, last = domain.source_fields()
        raise DomainFileError(f"This domain has no sources; give it {', '.join(most)} or {last}.")
    names: set[str] = set()
    for key in domain.source_fields():
        for at, source in enumerate(getattr(domain, key)):
            if not source.id:
                continue
            given = {source.id, *(f"{source.id}{suffix}" for suffix, _, _ in source.companions(GITHUB_URL))}
            if names & given:
                raise DomainFileError(f"{key}[{at}].id: {source.id} is the name of another source of this domain.")
            names |= given


def _sentence(error: ValidationError) -> str:
    """Return the first problem with its place, without the value; and how many more there are."""
    problems = error.errors(include_url=False, include_input=False)
    first = problems[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).removeprefix(".")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    problem = _PROBLEMS.get(first["type"])
    if problem is None:
        problem = first["msg"].removeprefix("Value error, ").removesuffix(".").replace("Input should", "should")
    return f"{place[:200]}: {problem}{more}." if place else f"{problem}{more}."
