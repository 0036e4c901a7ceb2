"""
The logins of HTTP listeners, built from the configuration, and from the users in the metadata.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from logbus.admin.authentication import HttpAuthentication, HttpLoginMetrics, HttpLogins
from logbus.broker.environment import Environment
from logbus.broker.sasl_listeners import SaslListeners
from logbus.broker.scram_accounts import scram_accounts
from logbus.cluster.security_nodes import SecurityNodes
from logbus.config import ConfigView, keys
from logbus.errors import ConfigError
from logbus.ilogbus import Listener
from logbus.listener_config import http_login_config, is_local
from logbus.net.protocol import PrincipalBuilder
from logbus.security.sasl.plain import verifier
from logbus.security.sasl.scram_credential import SCRAM_DIGESTS

_DYNAMIC = (keys.SASL_ENABLED_MECHANISMS, keys.SASL_JAAS_CONFIG)


# As an attribute of a class it would have the class's namespace.
_log = Logger(namespace="logbus.security")


@define(eq=False)
class HttpListeners:
    """
    The logins of all listeners of HTTP.

    :param sasl: has what checks tokens.
    :param nodes: returns the users, as this broker knows them.
    """

    _env: Environment
    _sasl: SaslListeners
    _nodes: Callable[[], SecurityNodes]
    _metrics: HttpLoginMetrics = field(factory=HttpLoginMetrics, init=False)
    _logins: dict[Listener, HttpLogins] = field(factory=dict, init=False)
    _unsubscribe: Callable[[], None] | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._env.registry.add_fields(self._metrics)

    def authentication(self, listener: Listener, certificate: PrincipalBuilder | None) -> HttpAuthentication:
        """
        Return what authenticates the clients of a listener.

        :param certificate: returns the principal of a client's certificate; None: nothing does.
        :raise ConfigError: names the listener, the keys and what is accepted.
        """
        env = self._env
        self._logins[listener] = logins = self._read(env.config, listener)
        if not (logins.required or is_local(listener.endpoint) or env.config.get(keys.AUTHORIZER_CLASS_NAME)):
            _log.warn(
                "listener {listener}: everybody who reaches it may do everything: no login, no authorizer",
                listener=listener.name,
            )
        if self._unsubscribe is None:
            self._unsubscribe = env.config.subscribe(_DYNAMIC, self._changed)
        return HttpAuthentication(
            lambda: self._logins[listener],
            env.reactor,
            self._in_thread,
            self._sasl.failure_delay,
            scram_accounts(self._nodes),
            self._sasl.unknown_users,
            certificate,
            self._metrics,
        )

    def check(self, config: ConfigView) -> None:
        """
        Check another configuration.

        :raise ConfigError: names the listener, the keys and what is accepted.
        """
        for listener in self._logins:
            http_login_config(config, listener)

    def stop(self) -> None:
        """Follow nothing any more."""
        if self._unsubscribe is not None:
            self._unsubscribe()

    def _read(self, config: ConfigView, listener: Listener) -> HttpLogins:
        settings = http_login_config(config, listener)
        sasl = settings.sasl
        if sasl is None:
            return HttpLogins(settings.required)
        tokens = None
        if sasl.jwt is not None:
            checks = self._sasl.jwt_logins(sasl.jwt)
            checks.start()
            tokens = checks.validate
        return HttpLogins(
            settings.required,
            tuple(each for each in sasl.mechanisms if each in SCRAM_DIGESTS),
            verifier(sasl.passwords) if sasl.passwords else None,
            tokens,
        )

    def _changed(self, config: ConfigView) -> None:
        """Let requests log in by the new settings; wrong ones are said, and change nothing."""
        for listener in list(self._logins):
            try:
                self._logins[listener] = self._read(config, listener)
            except ConfigError as e:
                _log.error("{error}; clients log in as before", error=str(e))

    def _in_thread(self, function: Callable[[], bool]) -> Deferred[bool]:
        pool = getattr(self._env.reactor, "getThreadPool", None)  # a reactor of tests and simulations has none
        return maybeDeferred(function) if pool is None else deferToThreadPool(self._env.reactor, pool(), function)
