"""One function that answers everything: tokens, Graph, digests and the REST of each site."""

from __future__ import annotations

import threading

from sample_sharepoint import graph, tokens
from sample_sharepoint.loopback import Reply, Request
from sample_sharepoint.model import Site
from sample_sharepoint.odata import ODataError
from sample_sharepoint.rest import Rest, error_reply
from sample_sharepoint.tenant import Tenant

DENIED = "-2147024891, System.UnauthorizedAccessException"
INVALID_DIGEST = "-2130575251, Microsoft.SharePoint.SPException"
DIGEST_SECONDS = 1_800


class SharePointService:
    """Answers requests about a tenant, one at a time; any bearer token will do unless one is given."""

    def __init__(self, tenant: Tenant, access_token: str = "") -> None:
        self.tenant = tenant
        self.access_token = access_token
        self.rest = Rest(tenant)
        self.digest = 1
        self.oldest_delta_token = 0
        self.lock = threading.RLock()

    def answer(self, request: Request) -> Reply:
        """Answer a request."""
        with self.lock:
            return self._answer(request)

    def _answer(self, request: Request) -> Reply:
        found = tokens.answer(request, self.access_token or "sample-token")
        if found is not None:
            return found
        if not self._is_authorised(request):
            challenge = 'Bearer realm="sample",client_id="00000003-0000-0ff1-ce00-000000000000"'
            body = {"error": "invalid_token", "error_description": "Invalid JWT token. The token is expired."}
            return Reply.of_json(body, 401, WWW_Authenticate=challenge)
        if request.path.startswith(graph.PREFIX):
            return graph.answer(
                self.tenant, request, min(self.rest.largest_page, graph.DEFAULT_PAGE), self.oldest_delta_token
            )
        path, marker, below = request.path.partition("/_api/")
        site = self.tenant.sites.get(path.lower()) if marker else None
        if site is None:
            return Reply(404, b"404 FILE NOT FOUND", {"Content-Type": "text/html"})
        return self._answer_site(request, site, below)

    def _is_authorised(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and bool(token) and token == (self.access_token or token)

    def _answer_site(self, request: Request, site: Site, below: str) -> Reply:
        if site.death == 403:
            message = "Access denied. You do not have permission to perform this action or access this resource."
            return error_reply(ODataError(403, DENIED, message))
        if site.death:
            return Reply(site.death, b"404 FILE NOT FOUND", {"Content-Type": "text/html"})
        if below.lower() == "contextinfo":
            return self._context(request, site)
        digest = request.headers.get("x-requestdigest")
        if digest is not None and digest != self._digest_text():
            message = "The security validation for this page is invalid and might be corrupted. Please try again."
            return error_reply(ODataError(403, INVALID_DIGEST, message))
        return self.rest.answer(request, site, below)

    def _digest_text(self) -> str:
        return f"0x{self.digest:032X},05 Jan 2026 08:00:00 -0000"

    def _context(self, request: Request, site: Site) -> Reply:
        information = {
            "__metadata": {"type": "SP.ContextWebInformation"},
            "FormDigestTimeoutSeconds": DIGEST_SECONDS,
            "FormDigestValue": self._digest_text(),
            "LibraryVersion": "16.0.25507.12007",
            "SiteFullUrl": f"{request.origin}{site.path}",
            "SupportedSchemaVersions": {
                "__metadata": {"type": "Collection(Edm.String)"},
                "results": ["14.0.0.0", "15.0.0.0"],
            },
            "WebFullUrl": f"{request.origin}{site.path}",
        }
        return Reply.of_json({"d": {"GetContextWebInformation": information}})
