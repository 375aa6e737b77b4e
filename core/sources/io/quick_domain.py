"""Add a domain by one word that came over HTTP: the address of a site or of a repository, or a folder."""

from __future__ import annotations

from core.keys import Keys
from core.settings import Settings
from core.sources.domain_schema import Domain
from core.sources.io.domain_file import parse_quick, renamed
from core.sources.io.domain_setup import permitted
from core.sources.io.source_store import SourceStore
from core.sources.source_record import DomainFileError
from core.store.connect import Client


async def read_quick(settings: Settings, client: Client, keys: Keys, word: str, domain_id: str = "") -> Domain:
    """Return the domain that a word names; raise DomainFileError, a sentence, if it cannot be one.

    No file is read for it, and whether a folder is there is only told of those that may be read.
    """
    domain = parse_quick(word, "/", web_url=settings.github_web_url)
    if domain_id:
        domain = renamed(domain, domain_id)
    for record in domain.sources(settings.github_web_url):
        await permitted(settings, SourceStore(client, keys), record)
    for _, source in domain.models():
        if problem := source.problem():
            raise DomainFileError(problem)
    return domain
