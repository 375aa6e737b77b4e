"""The token endpoint of an identity provider, as MSAL asks it: a certificate's signature for a bearer token."""

from __future__ import annotations

import re
from urllib.parse import parse_qs

from sample_sharepoint.loopback import Reply, Request

CONFIGURATION = re.compile(r"/(?P<tenant>[^/]+)(?:/v2\.0)?/\.well-known/openid-configuration")
TOKEN = re.compile(r"/(?P<tenant>[^/]+)/oauth2/v2\.0/token")
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
REQUIRED = ("client_id", "grant_type", "scope", "client_assertion", "client_assertion_type")
LIFETIME_SECONDS = 3_600


def answer(request: Request, access_token: str) -> Reply | None:
    """Answer a request for tokens; None if it is about something else."""
    if match := CONFIGURATION.fullmatch(request.path):
        return _configuration(f"{request.origin}/{match['tenant']}")
    if request.method == "POST" and TOKEN.fullmatch(request.path):
        return _token(request, access_token)
    return None


def _configuration(authority: str) -> Reply:
    body = {
        "issuer": f"{authority}/v2.0",
        "authorization_endpoint": f"{authority}/oauth2/v2.0/authorize",
        "token_endpoint": f"{authority}/oauth2/v2.0/token",
        "jwks_uri": f"{authority}/discovery/v2.0/keys",
        "response_types_supported": ["code"],
        "token_endpoint_auth_methods_supported": ["private_key_jwt"],
    }
    return Reply.of_json(body, content_type="application/json")


def _token(request: Request, access_token: str) -> Reply:
    form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
    missing = [name for name in REQUIRED if not form.get(name)]
    if missing:
        return _refused("invalid_request", f"AADSTS900144: The request body must contain '{missing[0]}'.")
    is_signed = form["client_assertion_type"] == ASSERTION and form["client_assertion"].count(".") == 2
    if form["grant_type"] != "client_credentials" or not is_signed:
        return _refused("invalid_client", "AADSTS700027: The certificate's signature is not valid.")
    if not form["scope"].startswith("https://") and not form["scope"].startswith("http://"):
        return _refused("invalid_scope", f"AADSTS70011: The scope '{form['scope']}' is not valid.")
    body = {"token_type": "Bearer", "expires_in": LIFETIME_SECONDS, "access_token": access_token}
    return Reply.of_json(body, content_type="application/json")


def _refused(code: str, description: str) -> Reply:
    return Reply.of_json({"error": code, "error_description": description}, 401, "application/json")
