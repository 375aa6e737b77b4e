"""Import the edited domain.json of a domain before a request about it is answered."""

from __future__ import annotations

import logging

from core.sources.io.domain_file_sync import DomainFileSync
from workers.web.routing import StoreCall

log = logging.getLogger("web")


def take_up(call: StoreCall) -> DomainFileSync:
    """Return what takes up files; the folders that they name have to be below FOLDER_ROOTS."""
    return DomainFileSync(call.settings, call.client, call.keys, is_own_command=False)


async def take_up_domain(call: StoreCall, domain_id: str) -> None:
    """Take up the file of a domain; one that cannot be used is an error only where there is nothing else to show."""
    if problem := await take_up(call).one_if_usable(domain_id):
        log.warning("⚠️ %s", problem)
