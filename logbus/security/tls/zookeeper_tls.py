"""
TLS to ZooKeeper, by Kafka's keys ``zookeeper.ssl.*`` (KIP-515). Pure, but for reading files.
"""

from __future__ import annotations

import secrets
import ssl
import tempfile
from typing import Any, Self

from attrs import define, field, frozen
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from logbus.config import ConfigView, keys
from logbus.config.config_key import ConfigKey
from logbus.errors import ConfigError
from logbus.security.tls.cipher_suites import CipherSuites
from logbus.security.tls.key_store import KeyPair, load_key_pair, load_trusted, read_store
from logbus.security.tls.tls_settings import StoreSettings

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@define(eq=False)
class ZooKeeperTls:
    """
    Makes the contexts of connections to ZooKeeper.

    :ivar has_certificate: whether this side has a certificate, by which ZooKeeper knows it (scheme ``x509``).
    """

    settings: _Settings
    _last: ssl.SSLContext = field(init=False, repr=False)

    @_last.default
    def _first(self) -> ssl.SSLContext:
        return self.settings.context()

    @classmethod
    def of(cls, config: ConfigView) -> Self:
        """
        Read the settings, and the keys and certificates that they name.

        :raise ConfigError: names the key of the configuration, and what is wrong.
        """
        return cls(_Settings.of(config))

    @property
    def has_certificate(self) -> bool:
        return self.settings.key_store is not None

    def renew(self) -> ssl.SSLContext:
        """
        Read keys and certificates again.

        :raise ConfigError: they cannot be used any more; :attr:`last` is as before.
        """
        self._last = self.settings.context()
        return self._last

    @property
    def last(self) -> ssl.SSLContext:
        """The last context whose keys and certificates were fine."""
        return self._last


@frozen
class _Settings:
    key_store: StoreSettings | None
    trust_store: StoreSettings | None
    check_host: bool
    versions: frozenset[str]
    suites: CipherSuites

    @classmethod
    def of(cls, config: ConfigView) -> Self:
        wanted: tuple[str, ...] = config.get(keys.ZOOKEEPER_SSL_CIPHER_SUITES)
        suites = CipherSuites.parse(wanted, keys.ZOOKEEPER_SSL_CIPHER_SUITES.name)
        enabled: tuple[str, ...] = config.get(keys.ZOOKEEPER_SSL_ENABLED_PROTOCOLS)
        spoken = {version for version, some in (("TLSv1.2", suites.tls12), ("TLSv1.3", suites.tls13)) if some}
        versions = spoken.intersection(enabled)
        if not versions:
            raise ConfigError(
                f"{keys.ZOOKEEPER_SSL_CIPHER_SUITES.name}: none of the suites is of a version in "
                f"{keys.ZOOKEEPER_SSL_ENABLED_PROTOCOLS.name}"
            )
        return cls(
            _store(
                config,
                keys.ZOOKEEPER_SSL_KEYSTORE_LOCATION,
                keys.ZOOKEEPER_SSL_KEYSTORE_PASSWORD,
                keys.ZOOKEEPER_SSL_KEYSTORE_TYPE,
            ),
            _store(
                config,
                keys.ZOOKEEPER_SSL_TRUSTSTORE_LOCATION,
                keys.ZOOKEEPER_SSL_TRUSTSTORE_PASSWORD,
                keys.ZOOKEEPER_SSL_TRUSTSTORE_TYPE,
            ),
            config.get(keys.ZOOKEEPER_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM) != "",
            frozenset(versions),
            suites,
        )

    def context(self) -> ssl.SSLContext:
        """
        A new context, with keys and certificates as they are now.

        :raise ConfigError: names the key of the configuration, and what is wrong.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.check_host
        context.minimum_version = min(_VERSIONS[version] for version in self.versions)
        context.maximum_version = max(_VERSIONS[version] for version in self.versions)
        context.options |= ssl.OP_NO_COMPRESSION
        if self.suites.tls12:
            context.set_ciphers(":".join(self.suites.tls12))
        if self.trust_store is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            trusted = load_trusted(self.trust_store, read_store(self.trust_store).content)
            context.load_verify_locations(cadata="".join(_pem(one) for one in trusted))
        if self.key_store is not None:
            _use_pair(context, self.key_store, load_key_pair(self.key_store, read_store(self.key_store).content))
        return context


def _store(
    config: ConfigView, location: ConfigKey[Any], password: ConfigKey[Any], type: ConfigKey[Any]
) -> StoreSettings | None:
    path = config.get(location)
    if path is None:
        return None
    names = {"location": location.name, "password": password.name, "key_password": password.name, "type": type.name}
    names |= {"certificates": location.name, "key": location.name}
    kind = config.get(type)
    if kind is None:
        # As ZooKeeper's own client does.
        kind = "PKCS12" if path.lower().endswith((".p12", ".pfx")) else "PEM"
    return StoreSettings(names, kind, path, config.get(password), None, None, config.get(password))


def _use_pair(context: ssl.SSLContext, settings: StoreSettings, pair: KeyPair) -> None:
    # Python takes keys from files alone: for this moment there is one that nobody else can use.
    password = secrets.token_hex(32)
    key = pair.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
    with tempfile.NamedTemporaryFile(prefix="logbus-") as file:
        file.write(key + "".join(_pem(one) for one in (pair.certificate, *pair.chain)).encode())
        file.flush()
        try:
            context.load_cert_chain(file.name, password=password)
        except ssl.SSLError as e:
            raise ConfigError(
                f"{settings.names['location']}: OpenSSL refuses the key or its certificate: {e.reason or e}"
            ) from None


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()
