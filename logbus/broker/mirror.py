"""A mirror that a cluster runs by itself, to have topics of another one: at its controller, so that there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.broker.environment import Environment
from logbus.config import keys
from logbus.config.config_key import ConfigKey
from logbus.config.mirror_flows import FlowSettings
from logbus.coroutines import sleep
from logbus.errors import ConfigError, LogbusError, short_reason
from logbus.metrics import Family

if TYPE_CHECKING:
    from logbus.client.cluster.cluster import Cluster
    from logbus.mirror.mirror import Mirror
    from logbus.mirror.mirror_options import MirrorOptions
    from logbus.mirror.running_mirror import RunningMirror
    from logbus.security.client_security import ClientSecurity

_LOOK = 2.0
"""Seconds between looks at whether this broker is the controller."""
_ENDING = 10.0
"""Seconds that a stop waits for the end of the mirror's transaction."""
_PAUSE = 10.0
"""Seconds after which a mirror that has failed begins again."""


class BrokerMirror:
    """
    Runs a mirror while this broker is the controller.

    :param is_controller: whether it is.
    :param addresses: where this broker listens for Kafka's protocol, once it does.
    :param taken: given the names of this mirror, of its source and of a topic there, returns the name of another mirror
        that copies this topic.
    :raises ConfigError: a key is wrong.
    :ivar settings: the keys of this mirror.
    :ivar options: made of them.
    :ivar servers: addresses of the source.
    """

    _log = Logger(namespace="logbus.mirror")

    def __init__(
        self,
        env: Environment,
        settings: FlowSettings,
        is_controller: Callable[[], bool],
        addresses: Callable[[], Sequence[str]],
        taken: Callable[[str, str, str], str | None],
    ) -> None:
        self._env = env
        self.settings = settings
        self._taken = taken
        self._is_controller = is_controller
        self._addresses = addresses
        self._mirror: Mirror | None = None
        self._since = 0.0
        self._work: Deferred[None] | None = None
        self._pausing: Deferred[None] | None = None
        self._stopping = False
        self.servers = settings.get(keys.MIRROR_SOURCE_BOOTSTRAP_SERVERS)
        self.options = self._checked()

    def running(self) -> RunningMirror | None:
        """The mirror, if it runs at this broker; also one that has failed, and will be tried again."""
        if self._mirror is None:
            return None
        from logbus.mirror.running_mirror import RunningMirror

        return RunningMirror(self.servers, self.options, self._mirror.status, self._since)

    def families(self) -> Iterable[Family]:
        """Its metrics, while it runs."""
        return () if self._mirror is None else self._mirror.status.families()

    def start(self) -> None:
        """Begin to look."""
        self._work = Deferred.fromCoroutine(self._run())

    def stop(self) -> Deferred[None] | None:
        """End the mirror in order, while this broker still serves; after a while, in any case."""
        self._stopping = True
        if self._mirror is not None:
            self._mirror.stop()
        if self._pausing is not None:
            self._pausing.cancel()
        if self._work is None:
            return None
        return self._work.addTimeout(_ENDING, self._env.reactor).addErrback(self._not_ended)

    def _not_ended(self, failure: Failure) -> None:
        self._log.info("the mirror is left as it is: {error}", error=failure.value)

    def _checked(self) -> MirrorOptions:
        from logbus.client.cluster.addresses import parse_bootstrap
        from logbus.mirror.mirror_keys import mirror_options
        from logbus.mirror.mirror_options import check_flow

        settings = self.settings
        if settings.flow is not None:
            check_flow("the NAME in mirror.flow.NAME", settings.flow)
        for key in (keys.MIRROR_SOURCE_BOOTSTRAP_SERVERS, keys.MIRROR_TARGET_BOOTSTRAP_SERVERS):
            if given := settings.get(key):
                try:
                    parse_bootstrap(given)
                except ConfigError as e:
                    raise ConfigError(f"{settings.name_of(key)}: {e}") from None
        if not self.servers:
            name = settings.own_name(keys.MIRROR_SOURCE_BOOTSTRAP_SERVERS)
            raise ConfigError(f"{name} is not set: give the brokers of the cluster to read, as host:port")
        for side in (keys.MIRROR_SOURCE_CONFIG, keys.MIRROR_TARGET_CONFIG):
            self._security(side)
        return mirror_options(settings, flow=settings.flow, of_broker=True)

    async def _run(self) -> None:
        while not self._stopping:
            pause = _LOOK
            if self._is_controller():
                await self._mirror_once()
                pause = _PAUSE
            if not self._is_controller():
                # Another broker tells how it goes on.
                self._mirror = None
                pause = _LOOK
            await self._pause(pause)

    async def _mirror_once(self) -> None:
        """Mirror until this broker is not the controller any more, or something fails."""
        from logbus.mirror.mirror import Mirror

        options, here = self.options, self.settings.get(keys.MIRROR_TARGET_BOOTSTRAP_SERVERS)
        try:
            securities = [self._security(key) for key in (keys.MIRROR_SOURCE_CONFIG, keys.MIRROR_TARGET_CONFIG)]
            source = self._cluster(self.servers, securities[0])
            target = self._cluster(here or self._addresses()[:1], securities[1])
        except ConfigError as e:
            # Such as a file that was there when the broker started, and is being replaced.
            self._log.warn("the mirror from {source} cannot begin: {error}", source=options.source, error=e)
            return
        mirror = self._mirror = Mirror(
            source,
            target,
            options,
            say=self._say,
            wall_clock=self._env.wall_clock,
            taken=lambda topic: self._taken(options.flow, options.source, topic),
        )
        self._since = self._env.wall_clock()
        watching = Deferred.fromCoroutine(self._watch(mirror))
        watching.addErrback(lambda failure: failure.trap(CancelledError))
        try:
            await mirror.run()
        except LogbusError as e:
            self._log.warn("the mirror from {source} ended: {error}", source=options.source, error=e)
        except CancelledError:
            raise
        except Exception as e:
            self._log.failure("the mirror from {source} failed", source=options.source)
            mirror.status.fail(f"{type(e).__name__}: {e}")
        finally:
            watching.cancel()
            await source.close()
            await target.close()

    async def _watch(self, mirror: Mirror) -> None:
        while self._is_controller():
            await sleep(self._env.reactor, _LOOK)
        mirror.stop()

    async def _pause(self, seconds: float) -> None:
        if self._stopping:
            return
        self._pausing = sleep(self._env.reactor, seconds)
        try:
            await self._pausing
        except CancelledError:
            pass
        finally:
            self._pausing = None

    def _cluster(self, addresses: Iterable[str], security: ClientSecurity | None) -> Cluster:
        from logbus.client.cluster.cluster import Cluster

        timeout = self.settings.get(keys.MIRROR_TIMEOUT_SECONDS)
        return Cluster(
            self._env.reactor,
            list(addresses),
            client_id="logbus-mirror",
            timeout=timeout,
            connect_timeout=min(timeout, 10.0),
            security=security,
        )

    def _security(self, key: ConfigKey[str | None]) -> ClientSecurity | None:
        """
        :raises ConfigError: the file cannot be read, or a property is wrong.
        """
        path = self.settings.get(key)
        if path is None:
            return None
        from logbus.config.properties import parse_properties
        from logbus.security.client_security import ClientSecurity, split_properties

        try:
            return ClientSecurity.of(split_properties(parse_properties(Path(path).read_text(encoding="utf-8")))[0])
        except (OSError, UnicodeDecodeError, ConfigError) as e:
            raise ConfigError(f"{self.settings.name_of(key)}: {path}: {short_reason(e)}") from None

    def _say(self, line: str) -> None:
        if self.settings.flow is None:
            self._log.info("{line}", line=line)
        else:
            self._log.info("{flow}: {line}", flow=self.settings.flow, line=line)
