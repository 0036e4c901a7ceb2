"""
Builds the protection of a broker and its clients from the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.logger import Logger

from logbus.broker.environment import Environment
from logbus.broker.http_listeners import HttpListeners
from logbus.broker.sasl_listeners import SaslListeners
from logbus.cluster.delegation_tokens import DelegationTokens
from logbus.cluster.peers import ConnectTo, LogIn
from logbus.cluster.security_nodes import SecurityNodes
from logbus.config import ConfigView, keys
from logbus.errors import ConfigError
from logbus.ilogbus import Listener
from logbus.listener_config import check_inter_broker, inter_broker_listener, protected_listener
from logbus.net.channel import Channel
from logbus.net.protocol import PrincipalBuilder
from logbus.net.sasl_client import log_in
from logbus.security.sasl.broker_credentials import read_broker_credentials
from logbus.security.tls.tls_errors import UnusableCertificate
from logbus.socket_server import listener_tls

if TYPE_CHECKING:
    from logbus.security.tls.key_store import KeyPair
    from logbus.security.tls.listener_tls import ListenerTls
    from logbus.security.tls.tls_settings import StoreSettings

_STORES = (keys.SSL_KEYSTORE_LOCATION, keys.SSL_KEYSTORE_KEY, keys.SSL_TRUSTSTORE_LOCATION, keys.SSL_CLIENT_AUTH)


class BrokerSecurity:
    """
    The security of a broker's listeners.

    :param listeners: those of the broker.
    :param nodes: returns the users, as this broker knows them.
    :param broker_secret: returns what only brokers know, once the metadata store is open.
    :param is_worker: whether the machine has other workers, which are brokers.
    :ivar tokens: the delegation tokens.
    """

    _log = Logger()

    def __init__(
        self,
        env: Environment,
        listeners: Iterable[Listener],
        nodes: Callable[[], SecurityNodes],
        broker_secret: Callable[[], bytes] = bytes,
        *,
        is_worker: bool = False,
    ) -> None:
        self._env = env
        self._zookeeper = bool(env.config.get(keys.ZOOKEEPER_CONNECT))
        self._is_worker = is_worker
        # Without either there are no other brokers.
        self._cluster = self._zookeeper or is_worker
        self._tls: dict[str, ListenerTls] = {}
        self._listeners = {listener.name: listener for listener in listeners}
        self.tokens = DelegationTokens((env.config.get(keys.DELEGATION_TOKEN_SECRET_KEY) or "").encode())
        self.sasl = SaslListeners(env, self._listeners.values(), nodes, self.tokens, broker_secret)
        self.http = HttpListeners(env, self.sasl, nodes)

    def connect_to(self, plain: ConnectTo) -> ConnectTo:
        """
        Return what makes endpoints to other brokers: over TLS, if they connect to each other so.

        :param plain: makes endpoints without TLS.
        """
        among = inter_broker_listener(self._listeners.values(), self._env.config)
        if among is None or not among.has_tls:
            return plain
        name = among.name

        def endpoint(host: str, port: int) -> IStreamClientEndpoint:
            from logbus.net.tls_client import TLSClientEndpoint  # only listeners with TLS need its packages

            return TLSClientEndpoint(plain(host, port), self._tls[name], host, self._env.reactor)

        return endpoint

    def log_in_to_brokers(self) -> LogIn | None:
        """Return what logs in on connections to other brokers; None: their listener has no SASL."""
        name = self._sasl_among_brokers()
        if name is None:
            return None

        async def logged_in(channel: Channel) -> None:
            await log_in(channel, lambda: read_broker_credentials(self._env.config, name), self._env.timers)

        return logged_in

    def protected_listener(self) -> str | None:
        """The listener that is for other brokers alone, which clients must not fill; None: there is none."""
        return protected_listener(self._listeners.values(), self._env.config) if self._cluster else None

    def _sasl_among_brokers(self) -> str | None:
        among = inter_broker_listener(self._listeners.values(), self._env.config) if self._cluster else None
        return among.name if among is not None and among.security_protocol.startswith("SASL_") else None

    def load(self) -> None:
        """
        Load the keys and the certificates of all listeners.

        :raise ConfigError: names the listener and the key.
        """
        self.sasl.load()
        config = self._env.config
        self._check_broker_credentials(config)
        among = inter_broker_listener(self._listeners.values(), config)
        for listener in self._listeners.values():
            if listener.has_tls:
                tls = listener_tls(listener, between_brokers=self._cluster and listener == among)
                tls.load(config)
                self._tls[listener.name] = tls
                self._warn(tls)
        kept = config.get(keys.ZOOKEEPER_SET_ACL) or config.get(keys.INTER_BROKER_SECRET) is not None
        if self._zookeeper and config.get(keys.AUTHORIZER_CLASS_NAME) and not kept:
            self._log.warn(
                "whoever can read ZooKeeper can pass for a broker, and do everything: set {secret} or {acl}",
                secret=keys.INTER_BROKER_SECRET.name,
                acl=keys.ZOOKEEPER_SET_ACL.name,
            )
        if not self._tls:
            for key in _STORES:
                if config.is_set(key):
                    self._log.warn("{key} has no effect: no listener has TLS", key=key.name)

    def key_pairs(self) -> Iterator[tuple[str, KeyPair]]:
        """Iterate over the keys of the listeners that the configuration names, by the listener's name."""
        for name, tls in self._tls.items():
            material = tls.material
            for pair in (material.pair, *material.others):
                if pair is not None:
                    yield name, pair

    def connections(self, listener: Listener) -> object | None:
        """Return what makes the TLS connections of a listener; None: it has no TLS."""
        tls = self._tls.get(listener.name)
        if tls is None:
            return None
        from logbus.net.tls import CurrentContext  # only listeners with TLS need its packages

        return CurrentContext(tls)

    def principal_builder(self, listener: Listener) -> PrincipalBuilder | None:
        """Return what names the clients of a listener by their certificates; None: nothing does."""
        tls = self._tls.get(listener.name)
        if tls is None or tls.sasl:
            return None
        from logbus.net.tls import peer_certificate

        def principal(transport: Any) -> str | None:
            return tls.principal(peer_certificate(transport))

        return principal

    def stop_logins(self) -> None:
        """Follow no settings of logins any more."""
        self.http.stop()
        self.sasl.stop()

    def reload(self) -> None:
        """
        Read keys and certificates again, for new connections; a listener whose new ones are wrong keeps the old. What
        other brokers would not accept, no listener with the same key store gets.
        """
        config = self._env.config
        unusable: list[StoreSettings] = []
        for tls in sorted(self._tls.values(), key=lambda each: not each.between_brokers):
            try:
                if tls.key_store(config) in unusable:
                    raise ConfigError(f"listener {tls.listener}: its key store is the same")
                changed = tls.load(config, self._now())
            except ConfigError as e:
                if isinstance(e, UnusableCertificate):
                    unusable.append(tls.key_store(config))
                self._log.error("{error}; the listener keeps its old certificates", error=str(e))
                continue
            except Exception:  # of a library, at something unheard of: no reason to fail for whoever had us reload
                self._log.failure("listener {listener} keeps its old certificates", listener=tls.listener)
                continue
            if changed:
                self._log.info(
                    "listener {listener}: new connections use {what}", listener=tls.listener, what=_shown(tls)
                )
                self._warn(tls)

    def check(self, config: ConfigView) -> None:
        """
        Check what :meth:`reload` would load with another configuration.

        :raise ConfigError: names the listener and the key.
        """
        self.sasl.check(config)
        self._check_broker_credentials(config)
        self.http.check(config)
        for tls in self._tls.values():
            tls.check(config, self._now())

    def _check_broker_credentials(self, config: ConfigView) -> None:
        if not self._cluster:
            return
        check_inter_broker(self._listeners.values(), config, "workers" if self._is_worker else "brokers")
        name = self._sasl_among_brokers()
        if name is not None:
            read_broker_credentials(config, name)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._env.wall_clock(), UTC)

    def _warn(self, tls: ListenerTls) -> None:
        for warning in tls.warnings(self._now()):
            self._log.warn("listener {listener}: {warning}", listener=tls.listener, warning=warning)


def _shown(tls: ListenerTls) -> str:
    pair = tls.material.pair
    if pair is None:
        return "the key and the certificate of its endpoint"
    certificate = pair.certificate
    subject, issuer = (name.rfc4514_string() for name in (certificate.subject, certificate.issuer))
    until = certificate.not_valid_after_utc
    return f"the certificate of {subject}, issued by {issuer}, valid until {until:%Y-%m-%d %H:%M} UTC"
