"""
The tiered storage of a broker: the store, the threads that read and copy, and what decides about segments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from logbus.broker.cluster_member import ClusterMember
from logbus.broker.environment import Environment
from logbus.broker.remote_log import RemoteLogs
from logbus.broker.remote_threads import MakeThreads
from logbus.broker.replication import Replication
from logbus.cluster.remote_log.copy_throttle import CopyThrottle
from logbus.cluster.remote_log.deleted_topics import GRACE_SECONDS, DeletedTopics
from logbus.cluster.remote_log.metadata_topic import RemoteLogMetadataTopic
from logbus.cluster.remote_log.remote_log_manager import RemoteLogManager
from logbus.cluster.remote_log.remote_log_task import RemoteTools
from logbus.cluster.remote_log.remote_state import remote_state
from logbus.cluster.remote_log.store_trouble import StoreTrouble
from logbus.config import keys
from logbus.model import REMOTE_LOG_METADATA_TOPIC
from logbus.storage.remote.fsspec_storage import FsspecStorage
from logbus.storage.remote.iremote_storage import RemoteStorage
from logbus.storage.remote.load_queue import LoadQueue
from logbus.storage.remote.read_ahead import ReadAhead
from logbus.storage.remote.remote_reader import RemoteReader
from logbus.storage.remote.window_cache import WindowCache


def build(
    env: Environment,
    member: ClusterMember,
    replication: Replication,
    ensure: Callable[[str], Deferred[None]],
    storage: RemoteStorage | None,
    threads: MakeThreads,
) -> RemoteLogs:
    """
    Build the remote parts of a broker's logs.

    :param ensure: creates an internal topic, if it is missing.
    :param storage: the store; None: that of the configuration.
    :param threads: makes the threads that read and copy.
    :raise ConfigError: the store cannot be used.
    """
    config, reactor = env.config, env.reactor
    if storage is None:
        uri, options = config.get(keys.REMOTE_LOG_STORAGE_URI), config.get(keys.REMOTE_LOG_STORAGE_OPTIONS)
        storage = FsspecStorage.open(uri or "", options or {})
    reader_threads, cache = config.get(keys.REMOTE_LOG_READER_THREADS), config.get(keys.REMOTE_LOG_READER_CACHE_BYTES)
    readers = threads("logbus-remote-read", reader_threads)
    copiers = threads("logbus-remote-copy", config.get(keys.REMOTE_LOG_MANAGER_THREAD_POOL_SIZE))
    replicas, trouble = replication.replicas, StoreTrouble(storage.where)

    def read(fn: Callable[..., Any], *args: Any) -> Deferred[Any]:
        return deferToThreadPool(reactor, cast(ThreadPool, readers), fn, *args)

    def copy(fn: Callable[..., Any], *args: Any) -> Deferred[Any]:
        def worked(result: Any) -> Any:
            trouble.note(None)
            return result

        return deferToThreadPool(reactor, cast(ThreadPool, copiers), fn, *args).addCallback(worked)

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
            LoadQueue(read, reader_threads),
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
    return RemoteLogs(manager, (readers, copiers))
