"""
The remote parts of a broker's logs, if it has tiered storage.

What that consists of is imported only then, so that others do without its memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logbus.broker.cluster_member import ClusterMember
from logbus.broker.environment import Environment
from logbus.broker.remote_threads import DaemonThreads, MakeThreads, RemoteThreads
from logbus.broker.replication import Replication
from logbus.config import keys
from logbus.coroutines import returns_deferred
from logbus.storage.log import Log

if TYPE_CHECKING:
    from logbus.cluster.remote_log.remote_log_manager import RemoteLogManager
    from logbus.cluster.remote_log.store_trouble import StoreTrouble
    from logbus.storage.remote.iremote_storage import RemoteStorage


@define(eq=False)
class RemoteLogs:
    """
    The remote parts of a broker's logs, with the threads that work on them.

    :ivar manager: None: the broker has no remote storage.
    """

    manager: RemoteLogManager | None = None
    _pools: tuple[RemoteThreads, ...] = ()

    @property
    def trouble(self) -> StoreTrouble | None:
        """Whether the store works; None: there is none."""
        return None if self.manager is None else self.manager.trouble

    def start(self) -> None:
        """Begin to copy and to delete."""
        for pool in self._pools:
            pool.start()
        if self.manager is not None:
            self.manager.start()

    @returns_deferred
    async def stop(self) -> None:
        """Stop; fires when no thread runs any more."""
        if self.manager is not None:
            await self.manager.stop()
        for pool in self._pools:
            await pool.end()

    @classmethod
    def build(
        cls,
        env: Environment,
        member: ClusterMember,
        replication: Replication,
        ensure: Callable[[str], Deferred[None]],
        storage: RemoteStorage | None = None,
        threads: MakeThreads | None = None,
    ) -> RemoteLogs:
        """
        Build them, if ``remote.log.storage.system.enable`` asks for them.

        :param ensure: creates an internal topic, if it is missing.
        :param storage: the store; None: that of the configuration.
        :param threads: makes the threads that read and copy.
        :raise ConfigError: the store cannot be used.
        """
        if not env.config.get(keys.REMOTE_LOG_STORAGE_SYSTEM_ENABLE):
            replication.replicas.logs.housekeeping.remote_log_of = _NoRemoteStorage()
            return cls()
        from logbus.broker.tiered_storage import build

        return build(env, member, replication, ensure, storage, threads or partial(DaemonThreads, env.reactor))


@define(eq=False)
class _NoRemoteStorage:
    """The remote parts of logs on a broker without remote storage: there are none, which is logged once a topic."""

    _seen: set[str] = field(factory=set, init=False)
    _log = Logger()

    def __call__(self, log: Log) -> None:
        topic = log.partition.topic
        if topic not in self._seen:
            self._seen.add(topic)
            self._log.error(
                "{topic} has remote storage, but this broker has remote.log.storage.system.enable=false: what is only "
                "there cannot be read here, and nothing is deleted locally",
                topic=topic,
            )
