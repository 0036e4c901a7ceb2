"""
The logins of listeners with SASL, built from the configuration, and from the users in the metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from attrs import define, field
from twisted.logger import Logger

from logbus.broker.environment import Environment
from logbus.broker.scram_accounts import scram_accounts
from logbus.cluster.delegation_tokens import DelegationTokens
from logbus.cluster.security_nodes import SecurityNodes
from logbus.config import ConfigView, keys
from logbus.errors import ConfigError
from logbus.extras import install_hint
from logbus.ilogbus import Listener
from logbus.listener_config import listener_sasl_config
from logbus.net.sasl_login import SaslLogin
from logbus.security.sasl.mechanism import SaslServer
from logbus.security.sasl.plain import PLAIN, PlainServer, verifier
from logbus.security.sasl.sasl_config import JwtSettings, SaslConfig
from logbus.security.sasl.sasl_session import SaslSettings
from logbus.security.sasl.scram_credential import SCRAM_DIGESTS
from logbus.security.sasl.scram_server import ScramServer, UnknownUsers

if TYPE_CHECKING:
    from logbus.net.jwt_keys import JwtLogins

_DYNAMIC = (keys.SASL_ENABLED_MECHANISMS, keys.SASL_JAAS_CONFIG)


@define(eq=False)
class SaslListeners:
    """
    The logins of all listeners.

    :param nodes: returns the users, as this broker knows them.
    :param tokens: those by which clients can log in.
    :param broker_secret: returns what only brokers know; empty: nothing.
    :ivar unknown_users: makes up the credentials of users that do not exist.
    """

    _env: Environment
    _listeners: Iterable[Listener]
    _nodes: Callable[[], SecurityNodes]
    _tokens: DelegationTokens = field(factory=DelegationTokens)
    _broker_secret: Callable[[], bytes] = field(default=bytes, repr=False)
    unknown_users: UnknownUsers = field(factory=UnknownUsers, init=False)
    _settings: dict[str, SaslSettings] = field(factory=dict, init=False)
    _jwt: dict[JwtSettings, JwtLogins] = field(factory=dict, init=False)
    _unsubscribe: Callable[[], None] | None = field(default=None, init=False)
    _log = Logger(namespace="logbus.security")

    def load(self) -> None:
        """
        Read the settings of all listeners, and follow their changes.

        :raise ConfigError: names the listener, the key and what is accepted.
        """
        if secret := self._broker_secret():
            self.unknown_users = UnknownUsers.of_brokers(secret)
        self._settings = self._read(self._env.config)
        self._unsubscribe = self._env.config.subscribe(_DYNAMIC, self._changed)

    def stop(self) -> None:
        """Follow nothing any more."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        for logins in self._jwt.values():
            logins.stop()

    def check(self, config: ConfigView) -> None:
        """
        Check another configuration.

        :raise ConfigError: names the listener, the key and what is accepted.
        """
        for listener in self._listeners:
            listener_sasl_config(config, listener)

    def login(self, listener: Listener) -> SaslLogin | None:
        """Return how the clients of a listener log in; None: they do not."""
        if not listener.security_protocol.startswith("SASL_"):
            return None
        return SaslLogin(lambda: self._settings[listener.name], self._env.wall_clock, self.failure_delay)

    def failure_delay(self) -> float:
        """Return how many seconds later a client learns that its login failed."""
        least: int = self._env.config.get(keys.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS)
        return least / 1000 * (1 + self._env.random.random())

    def _read(self, config: ConfigView) -> dict[str, SaslSettings]:
        found = {}
        for listener in self._listeners:
            settings = listener_sasl_config(config, listener)
            if settings is not None:
                found[listener.name] = SaslSettings(
                    {name: self._mechanism(name, settings) for name in settings.mechanisms},
                    settings.max_receive_bytes,
                    settings.max_reauth_ms,
                )
        for logins in self._jwt.values():
            logins.start()
        return found

    def _changed(self, config: ConfigView) -> None:
        """Let new connections log in by the new settings; wrong ones are said, and change nothing."""
        try:
            self._settings = self._read(config)
        except ConfigError as e:
            self._log.error("{error}; clients log in as before", error=str(e))

    def _mechanism(self, name: str, settings: SaslConfig) -> Callable[[], SaslServer]:
        if name == PLAIN:
            verify = verifier(settings.passwords)
            return lambda: PlainServer(verify)
        if name in SCRAM_DIGESTS:
            accounts = scram_accounts(self._nodes, self._tokens)
            return lambda: ScramServer(name, accounts, self.unknown_users)
        assert settings.jwt is not None
        return self.jwt_logins(settings.jwt).server

    def jwt_logins(self, settings: JwtSettings) -> JwtLogins:
        """
        Return what checks the tokens of an issuer; the listeners share it.

        :raise ConfigError: the packages for tokens are not installed.
        """
        if settings not in self._jwt:
            try:
                from logbus.net.jwt_keys import JwtLogins  # only OAUTHBEARER needs its packages
            except ImportError as e:
                raise ConfigError(
                    f"OAUTHBEARER needs a package that is not installed ({e}): {install_hint('oauth')}"
                ) from e
            self._jwt[settings] = JwtLogins(self._env.reactor, settings)
        return self._jwt[settings]
