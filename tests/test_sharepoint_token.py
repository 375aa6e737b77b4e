"""Tokens for SharePoint come from a certificate, are renewed in time, and say what is wrong when there are none."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12

from core.secret_text import SecretStr
from core.settings import Settings
from core.sources.sharepoint.io import throttle_gate
from core.sources.sharepoint.io.app_certificate import read_certificate
from core.sources.sharepoint.io.sharepoint_client import SharePointSite
from core.sources.sharepoint.remote_items import SharePointUnavailable
from sample_sharepoint import tokens
from tests.sharepoint_server import TOKEN, SharePointServer, make_certificate

DOCUMENTS = "/Shared Documents"
CONFIGURATION = "openid-configuration"
LONG_AGO, FAR_AHEAD = datetime(2020, 1, 1), datetime(2100, 1, 1)


@dataclass(frozen=True)
class Key:
    """A private key with a certificate."""

    private: Any
    certificate: x509.Certificate

    @property
    def thumbprint(self) -> str:
        return self.certificate.fingerprint(hashes.SHA1()).hex()

    def pem(self, password: bytes = b"") -> bytes:
        lock = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        return self.private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)

    def public(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def pfx(self, password: bytes) -> bytes:
        lock = serialization.BestAvailableEncryption(password)
        return pkcs12.serialize_key_and_certificates(b"app", self.private, self.certificate, None, lock)


def make_key(start: datetime = LONG_AGO, end: datetime = FAR_AHEAD, private: Any = None) -> Key:
    private = private or rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "app")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(private.public_key())
    builder = builder.serial_number(1).not_valid_before(start).not_valid_after(end)
    return Key(private, builder.sign(private, hashes.SHA256()))


@pytest.fixture(scope="module")
def key() -> Key:
    return make_key()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.pem"


def with_file(settings: Settings, path: Path, data: bytes, **changes: Any) -> Settings:
    path.write_bytes(data)
    return settings.model_copy(update={"sharepoint_certificate_path": str(path), **changes})


# ── the certificate ──


@pytest.mark.parametrize("form", ["pem", "locked pem", "chain", "pfx"])
def test_forms_of_a_certificate(settings: Settings, path: Path, key: Key, form: str) -> None:
    """PEM with or without a password, a chain in any order, and PFX give the same key and thumbprint."""
    forms = {
        "pem": key.pem() + key.public(),
        "locked pem": key.public() + key.pem(b"pass"),
        "chain": make_key().public() + key.public() + key.pem(),
        "pfx": key.pfx(b"pass"),
    }
    changed = with_file(settings, path, forms[form], sharepoint_certificate_password=SecretStr("pass"))

    found = read_certificate(changed)

    assert (found.thumbprint, found.private_key) == (key.thumbprint, key.pem().decode())
    assert "PRIVATE" not in repr(found)


def test_key_alone_needs_the_thumbprint(settings: Settings, path: Path, key: Key) -> None:
    """A key without its certificate works if the thumbprint is set, in the form that Entra shows."""
    alone = with_file(settings, path, key.pem())
    with pytest.raises(SharePointUnavailable, match="SHAREPOINT_CERTIFICATE_THUMBPRINT"):
        read_certificate(alone)

    shown = ":".join(key.thumbprint.upper()[at : at + 2] for at in range(0, 40, 2))
    named = alone.model_copy(update={"sharepoint_certificate_thumbprint": shown})
    assert read_certificate(named).thumbprint == key.thumbprint


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"hello", "SHAREPOINT_CERTIFICATE_PASSWORD"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "not a PEM or PFX file"),
        ("locked", "SHAREPOINT_CERTIFICATE_PASSWORD"),
        ("expired", "expired on 2021-01-01. Make a new one"),
        ("future", "valid from 2099-01-01"),
        ("other", "not that of the private key"),
        ("elliptic", "not RSA"),
    ],
)
def test_certificate_that_cannot_be_used(settings: Settings, path: Path, key: Key, content: Any, sentence: str) -> None:
    """Whatever is wrong with the file, the sentence names the setting and what to do."""
    made = {
        "locked": lambda: key.public() + key.pem(b"pass"),
        "expired": lambda: _whole(make_key(end=datetime(2021, 1, 1))),
        "future": lambda: _whole(make_key(start=datetime(2099, 1, 1))),
        "other": lambda: key.pem() + make_key().public(),
        "elliptic": lambda: _whole(make_key(private=ec.generate_private_key(ec.SECP256R1()))),
    }
    data = made[content]() if isinstance(content, str) else content

    with pytest.raises(SharePointUnavailable, match=sentence) as error:
        read_certificate(with_file(settings, path, data))
    assert "SHAREPOINT_CERTIFICATE_PATH" in str(error.value)


def _whole(key: Key) -> bytes:
    return key.pem() + key.public()


def test_file_and_thumbprint_that_are_wrong(settings: Settings, path: Path, key: Key) -> None:
    """A file that is not there, and a thumbprint of another certificate, are named."""
    gone = settings.model_copy(update={"sharepoint_certificate_path": str(path)})
    with pytest.raises(SharePointUnavailable, match=r"app\.pem cannot be read \(No such file"):
        read_certificate(gone)

    other = with_file(settings, path, _whole(key), sharepoint_certificate_thumbprint="00" * 20)
    with pytest.raises(SharePointUnavailable, match=f"which is {key.thumbprint}"):
        read_certificate(other)


@pytest.mark.parametrize("host", ["sharepoint.com.evil.example", "evilsharepoint.com", "evil.example"])
def test_a_given_token_goes_to_no_stranger(settings: Settings, host: str) -> None:
    """A token of one's own is sent to Microsoft's sites and to hosts that the operator names, to nobody else."""
    given = settings.model_copy(
        update={"sharepoint_access_token": SecretStr("T"), "fetch_allowed_hosts": ("a.example",)}
    )

    with pytest.raises(SharePointUnavailable, match="FETCH_ALLOWED_HOSTS"):
        SharePointSite.open(given, f"https://{host}/sites/demo")
    for known in ("contoso.sharepoint.com", "a.example"):
        SharePointSite.open(given, f"https://{known}/sites/demo").close()


def test_settings_that_are_missing(settings: Settings) -> None:
    """Without a token or a certificate the sentence names what to set; nothing is asked."""
    with pytest.raises(SharePointUnavailable, match="Set SHAREPOINT_TENANT_ID, SHAREPOINT_CLIENT_ID, SHAREPOINT_CERT"):
        SharePointSite.open(settings, "https://contoso.sharepoint.com/sites/demo")

    plain = {"sharepoint_tenant_id": "t", "sharepoint_client_id": "c", "sharepoint_certificate_path": "x"}
    changed = settings.model_copy(update={**plain, "sharepoint_authority_url": "http://127.0.0.1:1"})
    with pytest.raises(SharePointUnavailable, match="must begin with https"):
        SharePointSite.open(changed, "https://contoso.sharepoint.com/sites/demo")


# ── tokens ──


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for what it does not test."""
    monkeypatch.setattr(throttle_gate, "FIRST_BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(throttle_gate, "_gates", {})


@pytest.fixture
def sharepoint() -> Iterator[SharePointServer]:
    with SharePointServer(access_token="first") as running:
        running.page_size(1)
        running.file("a.txt")
        running.file("b.txt")
        yield running


@pytest.fixture
def certified(
    sharepoint: SharePointServer, settings: Settings, tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """Settings with a certificate, and an authority on loopback over TLS that this process trusts."""
    tls = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tls.public))
    changes = {
        "fetch_allowed_hosts": ("127.0.0.0/8",),
        "sharepoint_tenant_id": "contoso",
        "sharepoint_client_id": "the-app",
        "sharepoint_authority_url": sharepoint.authority_url(tls.public, tls.private),
    }
    return with_file(settings, tmp_path / "app.pem", _whole(key), **changes)


def listed(site: SharePointSite) -> list[str]:
    return [item.row.filename for page in site.library(DOCUMENTS) for item in page]


def test_certificate_buys_a_token(sharepoint: SharePointServer, certified: Settings, key: Key) -> None:
    """The authority gets a signed assertion for this server's scope, once, over the guarded session."""
    site = SharePointSite.open(certified, sharepoint.site_url)

    assert listed(site) == ["a.txt", "b.txt"]

    [asked] = sharepoint.asked(TOKEN)
    form = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
    header = json.loads(base64.urlsafe_b64decode(form["client_assertion"].split(".")[0] + "=="))
    assert asked.path == "/contoso/oauth2/v2.0/token"
    assert form["scope"] == f"https://{sharepoint.origin.partition('://')[2]}/.default"
    assert (form["client_id"], form["grant_type"]) == ("the-app", "client_credentials")
    assert base64.urlsafe_b64decode(header["x5t"] + "==").hex() == key.thumbprint
    assert {request.headers["user-agent"] for request in sharepoint.requests} == {certified.sharepoint_user_agent}
    assert all("/discovery/instance" not in request.path for request in sharepoint.requests)


def test_token_is_renewed_after_a_401(sharepoint: SharePointServer, certified: Settings) -> None:
    """A token that the server no longer takes is replaced in the middle of a listing, which goes on."""
    site = SharePointSite.open(certified, sharepoint.site_url)
    listing = site.library(DOCUMENTS)
    found = [item.row.filename for item in next(listing)]
    sharepoint.expire_token("second")

    assert found + [item.row.filename for page in listing for item in page] == ["a.txt", "b.txt"]
    assert len(sharepoint.asked(TOKEN)) == 2


def test_token_is_renewed_in_time(
    sharepoint: SharePointServer, certified: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token whose time is over is not sent again: the server never has to say 401."""
    monkeypatch.setattr(tokens, "LIFETIME_SECONDS", 0)
    site = SharePointSite.open(certified, sharepoint.site_url)

    assert listed(site) == ["a.txt", "b.txt"]
    assert len(sharepoint.asked(TOKEN)) >= 3


def test_refused_certificate_says_what_to_check(sharepoint: SharePointServer, certified: Settings) -> None:
    """What the authority says is passed on, with the settings to look at; the assertion is not."""
    sharepoint.fail(400, on=TOKEN, times=100)
    site = SharePointSite.open(certified, sharepoint.site_url)

    with pytest.raises(SharePointUnavailable, match="SHAREPOINT_CLIENT_ID"):
        listed(site)


@pytest.mark.parametrize("on", [TOKEN, CONFIGURATION])
def test_busy_authority_is_waited_for(sharepoint: SharePointServer, certified: Settings, on: str) -> None:
    """ "Not now" of the authority holds for the authority, and is waited for."""
    sharepoint.throttle(1, on=on)
    site = SharePointSite.open(certified, sharepoint.site_url)

    assert listed(site) == ["a.txt", "b.txt"]
    assert len(sharepoint.asked(on)) == 2


def test_authority_without_trust(
    sharepoint: SharePointServer, certified: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A TLS certificate that nobody vouches for ends the attempt, with a sentence."""
    monkeypatch.delenv("SSL_CERT_FILE")
    site = SharePointSite.open(certified, sharepoint.site_url)

    with pytest.raises(SharePointUnavailable, match="SSL_CERT_FILE"):
        listed(site)
    assert not sharepoint.requests


def test_private_authority_needs_permission(sharepoint: SharePointServer, certified: Settings) -> None:
    """The authority is checked like every other address."""
    port = sharepoint.origin.rpartition(":")[2]
    changed = certified.model_copy(update={"fetch_allowed_hosts": (f"127.0.0.1:{port}",)})
    site = SharePointSite.open(changed, sharepoint.site_url)

    with pytest.raises(SharePointUnavailable, match="FETCH_ALLOWED_HOSTS"):
        listed(site)
    assert not sharepoint.requests


def test_given_token_is_sent_as_it_is(sharepoint: SharePointServer, settings: Settings) -> None:
    """SHAREPOINT_ACCESS_TOKEN needs no authority; one that has expired is named."""
    site = SharePointSite.open(settings.model_copy(update=sharepoint.settings()), sharepoint.site_url)

    assert listed(site) == ["a.txt", "b.txt"]
    sharepoint.expire_token("second")
    with pytest.raises(SharePointUnavailable, match="renew SHAREPOINT_ACCESS_TOKEN"):
        listed(site)
