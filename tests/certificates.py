"""Certificates for tests, made when they are needed: authorities, and what they issue."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from attrs import frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_TYPES = {
    "CN": NameOID.COMMON_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "L": NameOID.LOCALITY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "C": NameOID.COUNTRY_NAME,
}


def _encryption(password: str | None) -> KeySerializationEncryption:
    return NoEncryption() if password is None else BestAvailableEncryption(password.encode())


@frozen
class Issued:
    """A private key with its certificate, and the certificates of those who issued it."""

    key: Any
    certificate: x509.Certificate
    issuers: tuple[x509.Certificate, ...] = ()

    @property
    def chain_pem(self) -> str:
        """The certificate, and its issuers' but the root's."""
        return "".join(one.public_bytes(Encoding.PEM).decode() for one in (self.certificate, *self.issuers[:-1]))

    def key_pem(self, password: str | None = None) -> str:
        """The key."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, _encryption(password)).decode()

    def pem(self, password: str | None = None) -> str:
        """Both."""
        return self.key_pem(password) + self.chain_pem

    def pkcs12(self, password: str) -> bytes:
        """Both in PKCS12."""
        return pkcs12.serialize_key_and_certificates(
            b"logbus", self.key, self.certificate, self.issuers[:-1] or None, _encryption(password)
        )

    def write(self, path: Path, password: str | None = None) -> Path:
        """Write both as PEM."""
        path.write_text(self.pem(password))
        return path


@frozen
class Authority:
    """One that issues certificates."""

    issued: Issued

    @classmethod
    def new(cls, name: str = "CN=Test CA", by: Authority | None = None) -> Authority:
        """A new root, or an intermediate authority."""
        return cls(_make(name, by, authority=True))

    def issue(self, name: str = "CN=localhost", **more: Any) -> Issued:
        """
        Issue a certificate.

        :param name: such as ``CN=alice,OU=x``: the last part of the name first.
        :param more: ``days``: valid for so many from now on (−1: until yesterday); ``hosts``: names and addresses.
        """
        return _make(name, self, **more)

    @property
    def pem(self) -> str:
        """The authority's own certificate."""
        return self.issued.certificate.public_bytes(Encoding.PEM).decode()

    def write(self, path: Path) -> Path:
        """Write the authority's own certificate, as a trust store."""
        path.write_text(self.pem)
        return path

    def pkcs12(self, password: str) -> bytes:
        """A trust store in PKCS12."""
        return pkcs12.serialize_key_and_certificates(
            b"ca", None, None, [self.issued.certificate], _encryption(password)
        )


def _make(
    name: str,
    by: Authority | None,
    *,
    authority: bool = False,
    days: float = 30,
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
    key: Any = None,
    usage: Any = None,
) -> Issued:
    key = key or ec.generate_private_key(ec.SECP256R1())
    parts = [part.split("=", 1) for part in reversed(name.split(","))]
    subject = x509.Name([x509.NameAttribute(_TYPES[kind], text) for kind, text in parts])
    now = datetime.now(UTC)
    public = key.public_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if by is None else by.issued.certificate.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=60))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )
    signer = key
    if by is not None:
        signer = by.issued.key
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        builder = builder.add_extension(identifier, critical=False)
    if authority:
        usages = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usages, critical=True)
    else:
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usage or both), critical=False)
        names = [_general_name(host) for host in hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    issuers = () if by is None else (by.issued.certificate, *by.issued.issuers)
    return Issued(key, builder.sign(signer, hashes.SHA256()), issuers)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
