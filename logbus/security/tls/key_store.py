"""
Reads key stores and trust stores: PEM and PKCS12, in files or in the configuration (Kafka: DefaultSslEngineFactory,
KIP-651). Pure, but for reading files.
"""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Iterator
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

from attrs import field, frozen
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from logbus.errors import ConfigError
from logbus.security.tls.tls_settings import StoreSettings

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
MAX_PAIRS = 100
"""Private keys in one key store."""

_JKS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_CONVERT = "keytool -importkeystore -srckeystore OLD -destkeystore NEW.p12 -deststoretype PKCS12"


class StoreBytes(NamedTuple):
    """The content of a store's file (None: no file), and what tells it from another content."""

    content: bytes | None
    digest: bytes


@frozen
class KeyPair:
    """
    A listener's private key with its certificates.

    :ivar certificate: of the key.
    :ivar chain: the certificates of those who issued it, from the nearest on.
    """

    key: Any = field(repr=False)
    certificate: x509.Certificate
    chain: tuple[x509.Certificate, ...]

    @property
    def hosts(self) -> frozenset[str]:
        """The names of hosts that the certificate is for, in lower case; ``*.example.org`` is for one label more."""
        return frozenset(name.lower() for name in self._alternative_names(x509.DNSName))

    @property
    def addresses(self) -> frozenset[str]:
        """The addresses that the certificate is for."""
        return frozenset(str(address) for address in self._alternative_names(x509.IPAddress))

    def names(self, host: str) -> bool:
        """Whether the certificate is for this name or address."""
        try:
            return str(ip_address(host)) in self.addresses
        except ValueError:
            name = host.lower().removesuffix(".")
            return not self.hosts.isdisjoint((name, f"*.{name.partition('.')[2]}"))

    def _alternative_names(self, kind: Any) -> list[Any]:
        try:
            names = self.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (x509.ExtensionNotFound, ValueError):
            return []
        return names.get_values_for_type(kind)

    def warnings(self, now: datetime) -> list[str]:
        """Describe certificates that are not valid at this time."""
        found = []
        for one in (self.certificate, *self.chain):
            subject = one.subject.rfc4514_string()
            if one.not_valid_after_utc < now:
                found.append(f"the certificate of {subject} expired on {one.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")
            if one.not_valid_before_utc > now:
                found.append(f"the certificate of {subject} is not valid before {one.not_valid_before_utc:%Y-%m-%d}")
        return found


def read_store(settings: StoreSettings) -> StoreBytes:
    """
    Read the file of a store, if it has one.

    :raises ConfigError: names the key and the file.
    """
    content = None
    if settings.location is not None:
        try:
            content = Path(settings.location).read_bytes()
        except OSError as e:
            raise ConfigError(
                f"{settings.names['location']}: {settings.location} cannot be read: {e.strerror or e}"
            ) from None
    said = repr((settings.type, settings.password, settings.certificates, settings.key, settings.key_password, content))
    return StoreBytes(content, hashlib.sha256(said.encode()).digest())


def load_key_pairs(settings: StoreSettings, content: bytes | None) -> tuple[KeyPair, ...]:
    """
    Load the private keys of a key store, each with its certificates. Only PEM can have several: the certificates of a
    key follow each other, its own first.

    :param content: of its file.
    :raises ConfigError: names the key of the configuration, and what is wrong.
    """
    text = (settings.key or "") if content is None else content.decode("utf-8", "replace")
    keys = [pem for label, pem in _blocks(text) if label.endswith("PRIVATE KEY")]
    if settings.type != "PEM" or len(keys) < 2:
        return (load_key_pair(settings, content),)
    where = _where(settings)
    if len(keys) > MAX_PAIRS:
        raise ConfigError(f"{where}: it has {len(keys)} private keys; there may be {MAX_PAIRS}")
    certificates = _pem_certificates(
        where if content is not None else settings.names["certificates"],
        (settings.certificates or "") if content is None else text,
    )
    loaded = [_pem_key(settings, pem) for pem in keys]
    by_public = {key.public_key().public_bytes(_DER, _SPKI): key for key in loaded}
    found: list[tuple[Any, list[x509.Certificate]]] = []
    for one in certificates:
        key = by_public.pop(one.public_key().public_bytes(_DER, _SPKI), None)
        if key is not None:
            found.append((key, [one]))
        elif found:
            found[-1][1].append(one)
        else:
            raise ConfigError(
                f"{where}: the first certificate, of {one.subject.rfc4514_string()}, belongs to none of the keys"
            )
    if by_public:
        raise ConfigError(f"{where}: {len(by_public)} of its {len(keys)} private keys have no certificate there")
    return tuple(KeyPair(key, chain[0], tuple(chain[1:])) for key, chain in found)


def load_key_pair(settings: StoreSettings, content: bytes | None) -> KeyPair:
    """
    Load the only private key of a key store, and its certificates.

    :param content: of its file.
    :raises ConfigError: names the key of the configuration, and what is wrong.
    """
    names, where = settings.names, _where(settings)
    if content is not None and settings.type == "PKCS12":
        _check_format(settings, content)
        stored = _pkcs12(settings, content)
        key, first = stored.key, stored.cert
        if key is None or first is None:
            raise ConfigError(f"{where}: it has no private key with a certificate; is it a trust store?")
        certificates = [first.certificate, *(one.certificate for one in stored.additional_certs)]
        certificates = list(_in_order(certificates))
    else:
        if content is not None:
            _check_format(settings, content)
            key_text = certificate_text = content.decode("utf-8", "replace")
        else:
            if settings.key is None or settings.certificates is None:
                missing = "key" if settings.key is None else "certificates"
                raise ConfigError(f"{names[missing]} is missing: a PEM key needs its certificates, and they need it")
            key_text, certificate_text = settings.key, settings.certificates
        key = _pem_key(settings, key_text)
        certificates = _pem_certificates(where if content is not None else names["certificates"], certificate_text)
    public = key.public_key().public_bytes(_DER, _SPKI)
    if certificates[0].public_key().public_bytes(_DER, _SPKI) != public:
        others = any(one.public_key().public_bytes(_DER, _SPKI) == public for one in certificates)
        hint = "; the key's own certificate must be the first" if others else ""
        raise ConfigError(
            f"{where}: the private key does not belong to the certificate of "
            f"{certificates[0].subject.rfc4514_string()}{hint}"
        )
    return KeyPair(key, certificates[0], tuple(certificates[1:]))


def load_trusted(settings: StoreSettings, content: bytes | None) -> list[x509.Certificate]:
    """
    Load the certificates of a trust store.

    :param content: of its file.
    :raises ConfigError: names the key of the configuration, and what is wrong.
    """
    where = _where(settings)
    if content is None:
        return _pem_certificates(settings.names["certificates"], settings.certificates or "")
    _check_format(settings, content)
    if settings.type == "PEM":
        return _pem_certificates(where, content.decode("utf-8", "replace"))
    stored = _pkcs12(settings, content)
    found = [one.certificate for one in ([stored.cert] if stored.cert else []) + list(stored.additional_certs)]
    if not found:
        raise ConfigError(f"{where}: it has no certificates")
    return found


_DER = serialization.Encoding.DER
_SPKI = serialization.PublicFormat.SubjectPublicKeyInfo


def _where(settings: StoreSettings) -> str:
    if settings.location is not None:
        return f"{settings.names['location']}: {settings.location}"
    return settings.names.get("key", settings.names["certificates"])


def _check_format(settings: StoreSettings, content: bytes) -> None:
    """Refuse a file of another type by the name of its own."""
    where, type_name = _where(settings), settings.names["type"]
    if content.startswith(_JKS):
        raise ConfigError(f"{where}: JKS and JCEKS are Java's only: use PEM or PKCS12 ({_CONVERT})")
    is_pem = b"-----BEGIN " in content
    if settings.type == "PKCS12" and is_pem:
        raise ConfigError(f"{where} is PEM, but {type_name} is PKCS12")
    if settings.type == "PEM" and not is_pem:
        raise ConfigError(f"{where} is not PEM; if it is PKCS12, set {type_name}=PKCS12")


def _pkcs12(settings: StoreSettings, content: bytes) -> pkcs12.PKCS12KeyAndCertificates:
    password = settings.password
    try:
        return pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except ValueError:
        name = settings.names["password"]
        why = f"{name} is missing" if password is None else f"{name} is wrong"
        raise ConfigError(f"{_where(settings)} cannot be opened: {why}, or the file is no PKCS12") from None


def _pem_key(settings: StoreSettings, text: str) -> Any:
    where, password_name = _where(settings), settings.names["key_password"]
    pem = next((pem for label, pem in _blocks(text) if label.endswith("PRIVATE KEY")), None)
    if pem is None:
        raise ConfigError(f"{where}: it has no PEM private key (-----BEGIN PRIVATE KEY-----)")
    password = None if settings.key_password is None else settings.key_password.encode()
    try:
        try:
            return serialization.load_pem_private_key(pem.encode(), password)
        except TypeError:
            if password is None:
                raise ConfigError(f"{where}: the private key is encrypted; set {password_name}") from None
            return serialization.load_pem_private_key(pem.encode(), None)  # a password that is not needed
    except ConfigError:
        raise
    except Exception as e:  # cryptography has several for what it does not know
        if password is not None and "ENCRYPTED" in pem:
            raise ConfigError(f"{where}: the private key cannot be decrypted: {password_name} is wrong") from None
        raise ConfigError(f"{where}: the private key cannot be read ({type(e).__name__})") from None


def _pem_certificates(where: str, text: str) -> list[x509.Certificate]:
    found = []
    for label, pem in _blocks(text):
        if label == "CERTIFICATE":
            try:
                found.append(x509.load_pem_x509_certificate(pem.encode()))
            except ValueError:
                raise ConfigError(f"{where}: certificate {len(found) + 1} cannot be read") from None
    if not found:
        raise ConfigError(f"{where}: it has no PEM certificates (-----BEGIN CERTIFICATE-----)")
    return found


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the label and the text of each PEM block, which may be on one line, as configuration files have it."""
    for match in _BLOCK.finditer(text):
        label, body = match.groups()
        if ":" not in body:  # headers of old encrypted keys
            body = "\n" + textwrap.fill("".join(body.split()), 64) + "\n"
        yield label, f"-----BEGIN {label}-----{body}-----END {label}-----\n"


def _in_order(certificates: list[x509.Certificate]) -> Iterator[x509.Certificate]:
    """Yield the first certificate, that of its issuer, and so on."""
    rest = certificates[1:]
    found: x509.Certificate | None = certificates[0]
    while found is not None:
        yield found
        issuer = found.issuer
        found = next((one for one in rest if one.subject == issuer), None)
        if found is not None:
            rest.remove(found)
