"""The keys ``ssl.*`` of one listener, with their names for errors. Pure."""

from __future__ import annotations

from typing import Any, Self

from attrs import field, frozen

from logbus.config import ConfigView, keys
from logbus.config.config_key import ConfigKey
from logbus.errors import ConfigError
from logbus.security.tls.cipher_suites import CipherSuites
from logbus.security.tls.ssl_principal_mapper import SslPrincipalMapper


@frozen
class StoreSettings:
    """
    The location of a key store or a trust store.

    :ivar names: the names under which the fields are set, by field, such as ``listener.name.x.ssl.keystore.location``.
    :ivar type: PEM or PKCS12.
    :ivar location: a file.
    :ivar password: of the file.
    :ivar certificates: the certificates as PEM text, instead of a file.
    :ivar key: the private key as PEM text, instead of a file.
    :ivar key_password: of the key.
    """

    names: dict[str, str] = field(eq=False, repr=False)
    type: str
    location: str | None
    password: str | None = field(repr=False)
    certificates: str | None = field(repr=False)
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)

    @property
    def is_set(self) -> bool:
        """Whether there is a store."""
        return (self.location or self.certificates or self.key) is not None


@frozen
class TlsSettings:
    """
    The settings of a listener's TLS.

    :ivar client_auth: ``none``, ``requested`` or ``required``.
    :ivar client_auth_name: the name under which it is set.
    :ivar check_host: whether a broker's certificate must name the host that another one connects to.
    :ivar versions: ``TLSv1.2``, ``TLSv1.3``.
    """

    key_store: StoreSettings
    trust_store: StoreSettings
    client_auth: str
    client_auth_name: str
    check_host: bool
    versions: frozenset[str]
    suites: CipherSuites

    @classmethod
    def of(cls, config: ConfigView, listener: str, *, sasl: bool = False) -> Self:
        """
        Read the settings of a listener.

        :param sasl: whether clients authenticate by SASL: then they need certificates only if this listener's own key
            asks for them (KIP-684).
        :raises ConfigError: names the key that is wrong.
        """

        def name(key: ConfigKey[Any]) -> str:
            return config.listener_setting_name(listener, key)

        auth_name = name(keys.SSL_CLIENT_AUTH)
        inherited = sasl and auth_name == keys.SSL_CLIENT_AUTH.name
        enabled: tuple[str, ...] = config.listener_get(listener, keys.SSL_ENABLED_PROTOCOLS)
        wanted: tuple[str, ...] = config.listener_get(listener, keys.SSL_CIPHER_SUITES)
        suites_name = name(keys.SSL_CIPHER_SUITES)
        suites = CipherSuites.parse(wanted, suites_name)
        # As in Java, a version without suites is not spoken.
        spoken = {version for version, some in (("TLSv1.2", suites.tls12), ("TLSv1.3", suites.tls13)) if some}
        versions = spoken.intersection(enabled)
        if not versions:
            raise ConfigError(f"{suites_name}: none of the suites is of a version in ssl.enabled.protocols")
        return cls(
            key_store=_store(
                config,
                listener,
                type=keys.SSL_KEYSTORE_TYPE,
                location=keys.SSL_KEYSTORE_LOCATION,
                password=keys.SSL_KEYSTORE_PASSWORD,
                certificates=keys.SSL_KEYSTORE_CERTIFICATE_CHAIN,
                key=keys.SSL_KEYSTORE_KEY,
                key_password=keys.SSL_KEY_PASSWORD,
            ),
            trust_store=_store(
                config,
                listener,
                type=keys.SSL_TRUSTSTORE_TYPE,
                location=keys.SSL_TRUSTSTORE_LOCATION,
                password=keys.SSL_TRUSTSTORE_PASSWORD,
                certificates=keys.SSL_TRUSTSTORE_CERTIFICATES,
            ),
            client_auth="none" if inherited else config.listener_get(listener, keys.SSL_CLIENT_AUTH),
            client_auth_name=auth_name,
            check_host=config.listener_get(listener, keys.SSL_ENDPOINT_IDENTIFICATION_ALGORITHM) != "",
            versions=frozenset(versions),
            suites=suites,
        )


def principal_mapper(config: ConfigView, listener: str) -> SslPrincipalMapper:
    """
    Return the rules of a listener.

    :raises ConfigError: a rule is wrong.
    """
    key = keys.SSL_PRINCIPAL_MAPPING_RULES
    return SslPrincipalMapper.parse(config.listener_get(listener, key), config.listener_setting_name(listener, key))


def _store(config: ConfigView, listener: str, **fields: ConfigKey[Any]) -> StoreSettings:
    names = {attribute: config.listener_setting_name(listener, key) for attribute, key in fields.items()}
    values: dict[str, Any] = {attribute: config.listener_get(listener, key) for attribute, key in fields.items()}
    return StoreSettings(names, **values)
