"""
The TLS of one listener: its current context, which is replaced when keys or certificates change (Kafka: SslFactory).
Pure, but for reading files.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from attrs import define, field
from cryptography import x509
from OpenSSL import SSL

from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.security.tls.certificate_checks import outdated, untrusted, wrong_host
from logbus.security.tls.distinguished_name import distinguished_name
from logbus.security.tls.ssl_principal_mapper import SslPrincipalMapper
from logbus.security.tls.tls_context import (
    TlsMaterial,
    make_client_context,
    make_context,
    read_material,
    restrict_context,
)
from logbus.security.tls.tls_errors import UnusableCertificate
from logbus.security.tls.tls_settings import StoreSettings, TlsSettings, principal_mapper


@define(eq=False)
class ListenerTls:
    """
    The contexts for new connections of a listener, and to it.

    :ivar listener: the listener's name.
    :ivar sasl: whether its clients authenticate by SASL.
    :ivar between_brokers: whether brokers connect to each other there.
    :ivar advertised: the host that others connect to; None: that is not known.
    :param endpoint_context: makes a context with the key that the listener's endpoint names; None: the configuration
        names the key.
    """

    listener: str
    sasl: bool = False
    _endpoint_context: Callable[[], SSL.Context] | None = None
    between_brokers: bool = False
    advertised: str | None = None
    _context: SSL.Context | None = field(default=None, init=False)
    _client_context: SSL.Context | None = field(default=None, init=False)
    _loaded: tuple[TlsSettings, TlsMaterial] | None = field(default=None, init=False)
    _mapper: SslPrincipalMapper | None = field(default=None, init=False)

    @property
    def context(self) -> SSL.Context:
        """The context for the next connection."""
        assert self._context is not None, "nothing is loaded"
        return self._context

    @property
    def client_context(self) -> SSL.Context:
        """The context for the next connection to the same listener of another broker."""
        assert self._client_context is not None, "brokers do not connect there, or nothing is loaded"
        return self._client_context

    @property
    def check_host(self) -> bool:
        """Whether another broker's certificate must name the host that is connected to."""
        assert self._loaded is not None, "nothing is loaded"
        return self._loaded[0].check_host

    @property
    def material(self) -> TlsMaterial:
        """What was loaded."""
        assert self._loaded is not None, "nothing is loaded"
        return self._loaded[1]

    def key_store(self, config: ConfigView) -> StoreSettings:
        """Return where a configuration has the key; equal for listeners with the same file."""
        return TlsSettings.of(config, self.listener, sasl=self.sasl).key_store

    def check(self, config: ConfigView, now: datetime | None = None) -> None:
        """
        Check whether :meth:`load` can succeed.

        :raises ConfigError: names the listener and the key.
        """
        principal_mapper(config, self.listener)
        settings, material = self._read(config)
        self._check_new(settings, material, now)
        self._context_of(settings, material)

    def load(self, config: ConfigView, now: datetime | None = None) -> bool:
        """
        Load keys and certificates; on an error the old ones stay.

        :param now: the time at which new certificates must be usable if the old ones are; None: any will do.
        :returns: whether there is a new context.
        :raises UnusableCertificate: others would not accept the new certificate.
        :raises ConfigError: names the listener and the key.
        """
        mapper = principal_mapper(config, self.listener)
        settings, material = self._read(config)
        self._check_new(settings, material, now)
        # Nobody could tell whether an endpoint's own files have changed.
        if self._loaded == (settings, material) and self._endpoint_context is None:
            return False
        context = self._context_of(settings, material)
        self._client_context = make_client_context(settings, material) if self.between_brokers else None
        self._context = context
        self._loaded, self._mapper = (settings, material), mapper
        return True

    def principal(self, certificate: x509.Certificate | None) -> str | None:
        """
        Return the principal that a client's certificate stands for; None without a certificate.

        :raises NoMatchingRule: the rules give it no name.
        """
        if certificate is None or self.sasl:
            return None
        assert self._mapper is not None, "nothing is loaded"
        return f"User:{self._mapper.user(distinguished_name(certificate.subject.public_bytes()))}"

    def _read(self, config: ConfigView) -> tuple[TlsSettings, TlsMaterial]:
        try:
            settings = TlsSettings.of(config, self.listener, sasl=self.sasl)
            own_key = self._endpoint_context is not None
            return settings, read_material(settings, own_key=own_key, between_brokers=self.between_brokers)
        except ConfigError as e:
            raise self._located(e) from None

    def warnings(self, now: datetime) -> list[str]:
        """Describe why others cannot use what was loaded, as far as that can be told."""
        assert self._loaded is not None, "nothing is loaded"
        settings, material = self._loaded
        found = self._unusable(settings, material, now)
        if not self.between_brokers and material.pairs and self.advertised is not None:
            found += filter(None, [wrong_host(material.pairs, self.advertised)])
        return found

    def _check_new(self, settings: TlsSettings, material: TlsMaterial, now: datetime | None) -> None:
        if now is None or self._loaded is None or self._unusable(*self._loaded, now):
            return
        for problem in self._unusable(settings, material, now):
            name = settings.key_store.names["location"]
            raise UnusableCertificate(f"listener {self.listener}: {name}: {problem}")

    def _unusable(self, settings: TlsSettings, material: TlsMaterial, now: datetime) -> list[str]:
        """Describe why certificates are of no use. Clients may know a broker by another name; other brokers do not."""
        pairs = material.pairs
        found = outdated(pairs, now)
        if self.between_brokers and pairs:
            found += filter(None, [untrusted(pairs, self.advertised, material.trusted)])
            if settings.check_host and self.advertised is not None:
                found += filter(None, [wrong_host(pairs, self.advertised)])
        return found

    def _context_of(self, settings: TlsSettings, material: TlsMaterial) -> SSL.Context:
        try:
            if self._endpoint_context is None:
                return make_context(settings, material)
            context = self._endpoint_context()
            restrict_context(context, settings, material)
            return context
        except ConfigError as e:
            raise self._located(e) from None

    def _located(self, error: ConfigError) -> ConfigError:
        return ConfigError(f"listener {self.listener}: {error}")
