"""
The TLS of a client, from Kafka's ``ssl.*`` properties. Pure, but for reading files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from attrs import define, field
from OpenSSL import SSL

from logbus.errors import ConfigError
from logbus.security.tls.cipher_suites import CipherSuites
from logbus.security.tls.distinguished_name import distinguished_name
from logbus.security.tls.key_store import load_key_pair, load_trusted, read_store
from logbus.security.tls.tls_context import TlsMaterial, make_client_context
from logbus.security.tls.tls_settings import StoreSettings, TlsSettings

_VERSIONS = ("TLSv1.2", "TLSv1.3")


@define(eq=False)
class ClientTls:
    """
    Makes the contexts of a client's connections. Files are read for each connection, so that new certificates are used
    without a restart.
    """

    _settings: TlsSettings
    _context: SSL.Context | None = field(default=None, init=False)
    _digest: bytes = field(default=b"", init=False)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """
        Read the properties, and the keys and certificates that they name.

        :raise ConfigError: names the key, and what would be right.
        """
        found = cls(_settings(properties))
        _ = found.client_context
        return found

    @property
    def check_host(self) -> bool:
        """Whether the broker's certificate must name the host that is connected to."""
        return self._settings.check_host

    @property
    def subject(self) -> str | None:
        """
        The name in the client's own certificate; None: it has none.

        :raise ConfigError: names the key, and what is wrong.
        """
        keys = self._settings.key_store
        if not keys.is_set:
            return None
        pair = load_key_pair(keys, read_store(keys).content)
        return distinguished_name(pair.certificate.subject.public_bytes())

    @property
    def client_context(self) -> SSL.Context:
        """
        The context for the next connection.

        :raise ConfigError: names the key, and what is wrong.
        """
        keys, trust = self._settings.key_store, self._settings.trust_store
        own, trusted = read_store(keys), read_store(trust)
        if self._context is None or own.digest + trusted.digest != self._digest:
            material = TlsMaterial(
                load_key_pair(keys, own.content) if keys.is_set else None,
                tuple(load_trusted(trust, trusted.content)) if trust.is_set else (),
                own.digest + trusted.digest,
            )
            context = make_client_context(self._settings, material)
            if not trust.is_set:
                context.set_default_verify_paths()
            self._context, self._digest = context, material.digest
        return self._context


def _settings(properties: Mapping[str, str]) -> TlsSettings:
    def text(name: str) -> str | None:
        return properties.get(name, "").strip() or None

    def words(name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(filter(None, (each.strip() for each in properties.get(name, "").split(",")))) or default

    versions = words("ssl.enabled.protocols", _VERSIONS)
    if not set(versions) <= set(_VERSIONS):
        raise ConfigError(f"ssl.enabled.protocols: {','.join(versions)}; accepted: {' and '.join(_VERSIONS)}")
    suites = CipherSuites.parse(words("ssl.cipher.suites", ()), "ssl.cipher.suites")
    spoken = {version for version, some in zip(_VERSIONS, (suites.tls12, suites.tls13), strict=True) if some}
    if not spoken & set(versions):
        raise ConfigError("ssl.cipher.suites: none of the suites is of a version in ssl.enabled.protocols")
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm not in ("https", ""):
        raise ConfigError(f"ssl.endpoint.identification.algorithm: {algorithm}; accepted: https, or nothing")
    return TlsSettings(
        key_store=_store(
            "keystore",
            text,
            certificates="ssl.keystore.certificate.chain",
            key="ssl.keystore.key",
            key_password="ssl.key.password",
        ),
        trust_store=_store("truststore", text, certificates="ssl.truststore.certificates"),
        client_auth="none",
        client_auth_name="ssl.client.auth",
        check_host=algorithm == "https",
        versions=frozenset(spoken & set(versions)),
        suites=suites,
    )


def _store(which: str, text: Callable[[str], str | None], **more: str) -> StoreSettings:
    names = {attribute: f"ssl.{which}.{attribute}" for attribute in ("type", "location", "password")} | more
    values: dict[str, Any] = {attribute: text(name) for attribute, name in names.items()}
    by_name = "PKCS12" if (values["location"] or "").lower().endswith((".p12", ".pfx")) else "PEM"
    kind = (values.pop("type") or by_name).upper()
    if kind not in ("PEM", "PKCS12"):
        raise ConfigError(f"{names['type']}: {kind}; accepted: PEM, PKCS12 (keytool -importkeystore converts others)")
    return StoreSettings(names, type=kind, **values)
