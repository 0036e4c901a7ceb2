"""The mirror that a cluster runs by itself, to have topics of another one: at its controller, so that there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.broker.environment import Environment
from logbus.config import keys
from logbus.coroutines import sleep
from logbus.errors import ConfigError, LogbusError
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
    Runs a mirror while this broker is the controller, if the keys ``mirror.…`` name a source. Nothing of mirrors and
    clients is imported otherwise.

    :param is_controller: whether it is.
    :param addresses: where this broker listens for Kafka's protocol, once it does.
    :raises ConfigError: a key is wrong.
    """

    _log = Logger(namespace="logbus.mirror")

    def __init__(
        self, env: Environment, is_controller: Callable[[], bool], addresses: Callable[[], Sequence[str]]
    ) -> None:
        self._env = env
        self._is_controller = is_controller
        self._addresses = addresses
        self._mirror: Mirror | None = None
        self._since = 0.0
        self._work: Deferred[None] | None = None
        self._pausing: Deferred[None] | None = None
        self._stopping = False
        self._options: MirrorOptions | None = None
        if env.config.get(keys.MIRROR_SOURCE_BOOTSTRAP_SERVERS):
            self._options = self._checked()
            env.registry.add_source(self._families)

    def running(self) -> list[RunningMirror]:
        """The mirror, if it runs at this broker; also one that has failed, and will be tried again."""
        if self._mirror is None or self._options is None:
            return []
        from logbus.mirror.running_mirror import RunningMirror

        servers = self._env.config.get(keys.MIRROR_SOURCE_BOOTSTRAP_SERVERS)
        return [RunningMirror(servers, self._options, self._mirror.status, self._since)]

    def start(self) -> None:
        """Begin to look."""
        if self._options is not None:
            self._work = Deferred.fromCoroutine(self._run(self._options))

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
        from logbus.mirror.mirror_options import MirrorOptions
        from logbus.mirror.name_filter import TOPICS_EXCLUDED, NameFilter
        from logbus.mirror.replication_policy import Naming

        config = self._env.config
        topics, excluded = config.get(keys.MIRROR_TOPICS), config.get(keys.MIRROR_TOPICS_EXCLUDE)
        try:
            for addresses in (keys.MIRROR_SOURCE_BOOTSTRAP_SERVERS, keys.MIRROR_TARGET_BOOTSTRAP_SERVERS):
                if given := config.get(addresses):
                    parse_bootstrap(given)
            options = MirrorOptions(
                source=config.get(keys.MIRROR_SOURCE_NAME),
                target=config.get(keys.MIRROR_TARGET_NAME),
                naming=Naming(config.get(keys.MIRROR_NAMING)),
                topics=NameFilter(topics, [*TOPICS_EXCLUDED, *excluded]),
                start="latest" if config.get(keys.MIRROR_START) == "latest" else "earliest",
                on_too_large="skip" if config.get(keys.MIRROR_ON_TOO_LARGE) == "skip" else "stop",
                sync_groups=config.get(keys.MIRROR_SYNC_GROUPS),
                rate=config.get(keys.MIRROR_RATE) or None,
            )
            for side in (keys.MIRROR_SOURCE_CONFIG, keys.MIRROR_TARGET_CONFIG):
                self._security(config.get(side))
        except ConfigError as e:
            raise ConfigError(f"mirror: {e}") from None
        return options

    async def _run(self, options: MirrorOptions) -> None:
        while not self._stopping:
            if self._is_controller():
                await self._mirror_once(options)
            if not self._is_controller():
                # Another broker tells how it goes on.
                self._mirror = None
            await self._pause(_LOOK if self._mirror is None else _PAUSE)

    async def _mirror_once(self, options: MirrorOptions) -> None:
        """Mirror until this broker is not the controller any more, or something fails."""
        from logbus.mirror.mirror import Mirror

        config = self._env.config
        there, here = config.get(keys.MIRROR_SOURCE_BOOTSTRAP_SERVERS), config.get(keys.MIRROR_TARGET_BOOTSTRAP_SERVERS)
        source = self._cluster(there, config.get(keys.MIRROR_SOURCE_CONFIG))
        target = self._cluster(here or self._addresses()[:1], config.get(keys.MIRROR_TARGET_CONFIG))
        mirror = self._mirror = Mirror(source, target, options, say=self._say, wall_clock=self._env.wall_clock)
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

    def _cluster(self, addresses: Iterable[str], path: str | None) -> Cluster:
        from logbus.client.cluster.cluster import Cluster

        security = self._security(path)
        return Cluster(self._env.reactor, list(addresses), client_id="logbus-mirror", security=security)

    @staticmethod
    def _security(path: str | None) -> ClientSecurity | None:
        """
        :raises ConfigError: the file cannot be read, or a property is wrong.
        """
        if path is None:
            return None
        from logbus.config.properties import parse_properties
        from logbus.security.client_security import ClientSecurity, split_properties

        try:
            return ClientSecurity.of(split_properties(parse_properties(Path(path).read_text(encoding="utf-8")))[0])
        except (OSError, UnicodeDecodeError) as e:
            raise ConfigError(f"{path}: {e}") from None

    def _say(self, line: str) -> None:
        self._log.info("{line}", line=line)

    def _families(self) -> Iterable[Family]:
        return () if self._mirror is None else self._mirror.status.families()
