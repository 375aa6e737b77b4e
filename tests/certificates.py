"""Certificates for tests."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa


@dataclass(frozen=True)
class CertificateFiles:
    """A certificate for 127.0.0.1, its key, and its thumbprint as app registrations show it."""

    public: Path
    private: Path
    thumbprint: str


def make_certificate(folder: Path) -> CertificateFiles:
    """Write a self-signed certificate: for TLS on loopback, and as that of an app registration."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(datetime(2020, 1, 1)).not_valid_after(datetime(2100, 1, 1))
    builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    files = CertificateFiles(
        folder / "certificate.pem", folder / "key.pem", certificate.fingerprint(hashes.SHA1()).hex().upper()
    )
    files.public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    files.private.write_bytes(private)
    return files
