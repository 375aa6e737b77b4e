"""Read the certificate of the app registration, PEM or PFX; say what to do about one that cannot be used."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.settings import ROOT, Settings
from core.sources.sharepoint.remote_items import SharePointUnavailable
from core.value_class import value_class

MOST_BYTES = 1_000_000
_SETTING = "SHAREPOINT_CERTIFICATE_PATH"


@value_class
class AppCertificate:
    private_key: str
    """PEM, decrypted; it stays in memory."""
    thumbprint: str
    """SHA-1 in hexadecimal, as Entra shows it."""

    def __repr__(self) -> str:
        """Show no key in a log."""
        return f"AppCertificate({self.thumbprint})"


def read_certificate(settings: Settings) -> AppCertificate:
    """Return key and thumbprint; `SharePointUnavailable` names the setting that is wrong."""
    data = _read(ROOT / Path(settings.sharepoint_certificate_path).expanduser())
    secret = settings.sharepoint_certificate_password
    password = secret.get_secret_value().encode() if secret else None
    key, certificate = _read_pem(data, password) if b"-----BEGIN" in data else _read_pfx(data, password)
    stated = settings.sharepoint_certificate_thumbprint.replace(":", "").replace(" ", "").lower()
    if certificate is None:
        if not stated:
            raise SharePointUnavailable(
                f"{_SETTING} has a private key and no certificate. Add the certificate to the file, or set "
                "SHAREPOINT_CERTIFICATE_THUMBPRINT."
            )
        return AppCertificate(key, stated)
    thumbprint = _check(certificate)
    if stated and stated != thumbprint:
        raise SharePointUnavailable(
            f"SHAREPOINT_CERTIFICATE_THUMBPRINT is not that of the certificate, which is {thumbprint}. Leave it empty, "
            f"or name the right file in {_SETTING}."
        )
    return AppCertificate(key, thumbprint)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES)
    except OSError as error:
        raise SharePointUnavailable(
            f"{_SETTING}: {path} cannot be read ({error.strerror}). Name a PEM or PFX file that Freshet may read."
        ) from error
    if not data:
        raise SharePointUnavailable(f"{_SETTING}: {path} is empty. Name a PEM or PFX file.")
    return data


def _read_pem(data: bytes, password: bytes | None) -> tuple[str, Any]:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        # A password for a key that has none is an error to the library, and none to people.
        key = load_pem_private_key(data, password if b"ENCRYPTED" in data else None)
        certificates = x509.load_pem_x509_certificates(data) if b"BEGIN CERTIFICATE" in data else []
    except (ValueError, TypeError) as error:
        raise _unreadable() from error
    return _pem_of(key), _certificate_of(key, certificates)


def _read_pfx(data: bytes, password: bytes | None) -> tuple[str, Any]:
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        key, certificate, _ = pkcs12.load_key_and_certificates(data, password)
    except (ValueError, TypeError) as error:
        raise _unreadable() from error
    if key is None or certificate is None:
        raise SharePointUnavailable(f"{_SETTING} has no private key with its certificate. Export both together.")
    return _pem_of(key), certificate


def _pem_of(key: Any) -> str:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    if not isinstance(key, RSAPrivateKey):
        raise SharePointUnavailable(
            f"{_SETTING} has a key that is not RSA, which Entra does not take. Make an RSA one."
        )
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _certificate_of(key: Any, certificates: list[Any]) -> Any:
    """Return the certificate of this key; a PEM file may hold a chain in any order."""
    mine = key.public_key().public_numbers()
    found = [one for one in certificates if getattr(one.public_key(), "public_numbers", lambda: None)() == mine]
    if certificates and not found:
        raise SharePointUnavailable(f"{_SETTING}: the certificate in the file is not that of the private key.")
    return found[0] if found else None


def _check(certificate: Any) -> str:
    from cryptography.hazmat.primitives.hashes import SHA1

    now = datetime.now(UTC)
    if certificate.not_valid_after_utc <= now:
        day = certificate.not_valid_after_utc.date().isoformat()
        raise SharePointUnavailable(
            f"The certificate in {_SETTING} expired on {day}. Make a new one, and add it to the app registration."
        )
    if certificate.not_valid_before_utc > now:
        day = certificate.not_valid_before_utc.date().isoformat()
        raise SharePointUnavailable(f"The certificate in {_SETTING} is valid from {day} on. Check the clock.")
    return str(certificate.fingerprint(SHA1()).hex())  # noqa: S303 - the name of a certificate in Entra


def _unreadable() -> SharePointUnavailable:
    return SharePointUnavailable(
        f"{_SETTING} is not a PEM or PFX file with a private key, or its password is not that in "
        "SHAREPOINT_CERTIFICATE_PASSWORD."
    )
