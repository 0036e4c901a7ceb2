"""
The tiered storage of a broker.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

from logbus.broker.cluster_member import ClusterMember
from logbus.broker.environment import Environment
from logbus.broker.replication import Replication
from logbus.cluster.remote_log.copy_throttle import CopyThrottle
from logbus.cluster.remote_log.deleted_topics import GRACE_SECONDS, DeletedTopics
from logbus.cluster.remote_log.metadata_topic import RemoteLogMetadataTopic
from logbus.cluster.remote_log.remote_log_manager import RemoteLogManager
from logbus.cluster.remote_log.remote_log_task import RemoteTools
from logbus.cluster.remote_log.remote_state import remote_state
from logbus.cluster.remote_log.store_trouble import StoreTrouble
from logbus.config import keys
from logbus.coroutines import returns_deferred
from logbus.model import REMOTE_LOG_METADATA_TOPIC
from logbus.storage.log import Log
from logbus.storage.remote.fsspec_storage import FsspecStorage
from logbus.storage.remote.iremote_storage import RemoteStorage
from logbus.storage.remote.load_queue import LoadQueue
from logbus.storage.remote.read_ahead import ReadAhead
from logbus.storage.remote.remote_reader import RemoteReader
from logbus.storage.remote.window_cache import WindowCache

STOP_SECONDS = 5.0
"""Until threads that do not end are left behind."""


@define(eq=False)
class RemoteLogs:
    """
    The remote parts of a broker's logs, with the threads that work on them.

    :ivar manager: None: the broker has no remote storage.
    """

    manager: RemoteLogManager | None = None
    _pools: tuple[ThreadPool, ...] = ()
    _reactor: Any = None

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
            await self._stop_pool(pool)

    def _stop_pool(self, pool: ThreadPool) -> Deferred[None]:
        """Fires when its threads have ended, or hang: then they end with the process."""
        ended: Deferred[None] = Deferred()

        def end() -> None:
            if not ended.called:
                ended.callback(None)

        def stop() -> None:
            pool.stop()
            self._reactor.callFromThread(end)

        Thread(target=stop, name=f"{pool.name}-stop", daemon=True).start()
        return ended.addTimeout(STOP_SECONDS, self._reactor, onTimeoutCancel=lambda result, seconds: None)

    @classmethod
    def build(
        cls,
        env: Environment,
        member: ClusterMember,
        replication: Replication,
        ensure: Callable[[str], Deferred[None]],
        storage: RemoteStorage | None = None,
    ) -> RemoteLogs:
        """
        Build them, if ``remote.log.storage.system.enable`` asks for them.

        :param ensure: creates an internal topic, if it is missing.
        :param storage: the store; None: that of the configuration.
        :raise ConfigError: the store cannot be used.
        """
        config, reactor = env.config, env.reactor
        if not config.get(keys.REMOTE_LOG_STORAGE_SYSTEM_ENABLE):
            replicas = replication.replicas
            replicas.logs.housekeeping.remote_log_of = _NoRemoteStorage()
            return cls()
        if storage is None:
            uri, options = config.get(keys.REMOTE_LOG_STORAGE_URI), config.get(keys.REMOTE_LOG_STORAGE_OPTIONS)
            storage = FsspecStorage.open(uri or "", options or {})
        threads, cache = config.get(keys.REMOTE_LOG_READER_THREADS), config.get(keys.REMOTE_LOG_READER_CACHE_BYTES)
        readers = _pool("logbus-remote-read", threads)
        copiers = _pool("logbus-remote-copy", config.get(keys.REMOTE_LOG_MANAGER_THREAD_POOL_SIZE))
        replicas, trouble = replication.replicas, StoreTrouble(storage.where)

        def read(fn: Callable[..., Any], *args: Any) -> Deferred[Any]:
            return deferToThreadPool(reactor, readers, fn, *args)

        def copy(fn: Callable[..., Any], *args: Any) -> Deferred[Any]:
            def worked(result: Any) -> Any:
                trouble.note(None)
                return result

            return deferToThreadPool(reactor, copiers, fn, *args).addCallback(worked)

        topic = RemoteLogMetadataTopic(
            env.broker_id,
            replicas,
            member.metadata,
            member.plugin_calls,
            lambda: ensure(REMOTE_LOG_METADATA_TOPIC),
            reactor,
            env.wall_ms,
        )
        tools = RemoteTools(
            env.broker_id,
            replicas.logs,
            topic,
            storage,
            RemoteReader(
                storage,
                LoadQueue(read, threads),
                reactor,
                WindowCache(cache),
                ReadAhead(cache // 2, reactor.seconds),
                lambda: config.get(keys.REMOTE_FETCH_MAX_WAIT_MS) / 1000,
                trouble.note,
            ),
            copy,
            CopyThrottle(lambda: config.get(keys.REMOTE_LOG_MANAGER_COPY_MAX_BYTES_PER_SECOND)),
            env.wall_ms,
            env.new_uuid,
        )
        stray_ms = config.get(keys.LOG_STRAY_RETENTION_MS)
        stray_seconds = math.inf if stray_ms < 0 else max(GRACE_SECONDS, stray_ms / 1000)
        manager = RemoteLogManager(
            replicas,
            tools,
            DeletedTopics(member.metadata, topic, reactor.seconds, lambda: replicas.unreadable, stray_seconds),
            trouble,
            reactor,
            lambda: config.get(keys.REMOTE_LOG_MANAGER_TASK_INTERVAL_MS) / 1000,
            config.get(keys.REMOTE_LOG_MANAGER_THREAD_POOL_SIZE),
        )
        # A circle in fact: logs ask for their remote parts, which are those of the broker's replicas.
        replicas.logs.housekeeping.remote_log_of = manager.remote_log
        replicas.listeners.append(manager)
        replication.fetcher.remote_state = partial(remote_state, tools)
        manager.register_metrics(env.registry)
        return cls(manager, (readers, copiers), reactor)


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


class _DaemonPool(ThreadPool):
    """Threads that do not keep the process when a store hangs."""

    threadFactory = staticmethod(partial(Thread, daemon=True))  # type: ignore[assignment]


def _pool(name: str, size: int) -> ThreadPool:
    return _DaemonPool(minthreads=0, maxthreads=size, name=name)
