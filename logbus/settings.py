"""
Derives the settings of each package from the broker's configuration.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IReactorTime

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.controller.topic_plan import TopicDefaults
from logbus.cluster.controller.topic_rules import TopicRules
from logbus.cluster.follower.fetch_settings import ReplicaFetchSettings
from logbus.cluster.replication.replica_selector import RackAwareReplicaSelector
from logbus.cluster.replication.replication_throttle import TokenBucket
from logbus.config import ConfigView, TopicConfig, keys
from logbus.config.config_key import ConfigKey
from logbus.config.setting_checks import usable_topic_overrides
from logbus.metastore.connect_string import ConnectString
from logbus.metastore.embedded_store import FILE_NAME, EmbeddedStore
from logbus.metastore.zookeeper_security import ZooKeeperSecurity
from logbus.net.connection_limits import ConnectionLimits, ConnectionQuotas
from logbus.storage.settings import CleanerSettings, ScrubSettings, StorageSettings

if TYPE_CHECKING:
    from logbus.metastore.zookeeper_store import ZooKeeperStore

UNBOUNDED_DESCRIPTORS = 65_536
"""The number of open files that is asked for where users may have any."""
MACOS_DESCRIPTORS = 10_240
"""``OPEN_MAX`` of macOS: it refuses more, whatever the user may have."""


def storage_settings(config: ConfigView) -> StorageSettings:
    """Return the settings of the storage package."""
    return StorageSettings(
        retention_check_interval_ms=config.get(keys.LOG_RETENTION_CHECK_INTERVAL_MS),
        recovery_checkpoint_interval_ms=config.get(keys.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS),
        high_watermark_checkpoint_interval_ms=config.get(keys.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS),
        producer_id_expiration_ms=config.get(keys.PRODUCER_ID_EXPIRATION_MS),
        producer_id_check_interval_ms=config.get(keys.PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS),
        max_open_files=most_open_files(),
        max_unsynced_files=most_unsynced_files(),
        space_check_interval_ms=config.get(keys.LOG_DIR_SPACE_CHECK_INTERVAL_MS),
        usage_warn_ratio=config.get(keys.LOG_DIR_USAGE_WARN_RATIO),
        stray_retention_ms=config.get(keys.LOG_STRAY_RETENTION_MS),
        allow_missing_directories=config.get(keys.LOG_DIRS_ALLOW_MISSING),
    )


def fetch_settings(config: ConfigView) -> ReplicaFetchSettings:
    """Return the settings of the replica fetcher; all are dynamic."""
    return ReplicaFetchSettings(
        min_bytes=config.get(keys.REPLICA_FETCH_MIN_BYTES),
        wait_max_ms=config.get(keys.REPLICA_FETCH_WAIT_MAX_MS),
        max_bytes=config.get(keys.REPLICA_FETCH_MAX_BYTES),
        response_max_bytes=config.get(keys.REPLICA_FETCH_RESPONSE_MAX_BYTES),
        backoff=config.get(keys.REPLICA_FETCH_BACKOFF_MS) / 1000,
        timeout=min(config.get(keys.REPLICA_SOCKET_TIMEOUT_MS), config.get(keys.ZOOKEEPER_SESSION_TIMEOUT_MS)) / 1000,
    )


def replication_rates(config: ConfigView, clock: IReactorTime) -> tuple[TokenBucket, TokenBucket]:
    """Return the throttles of leader and follower replication; their rates are dynamic."""
    window = config.get(keys.REPLICATION_QUOTA_WINDOW_SIZE_SECONDS)

    def bucket(rate: ConfigKey[int]) -> TokenBucket:
        return TokenBucket(lambda: config.get(rate), clock.seconds, window)

    return bucket(keys.LEADER_REPLICATION_THROTTLED_RATE), bucket(keys.FOLLOWER_REPLICATION_THROTTLED_RATE)


def replica_selector(config: ConfigView, metadata: ClusterMetadata) -> RackAwareReplicaSelector | None:
    """Return the replica selector (KIP-392); None: consumers read from leaders."""

    def rack(broker_id: int) -> str | None:
        broker = metadata.brokers.get(broker_id)
        return None if broker is None else broker.rack

    return None if config.get(keys.REPLICA_SELECTOR_CLASS) in (None, "leader") else RackAwareReplicaSelector(rack)


def topic_config(config: ConfigView, overrides: Mapping[str, str]) -> TopicConfig:
    """Return the configuration of a topic with these overrides; skips those that this version does not understand."""
    return config.topic_config(usable_topic_overrides(overrides))


def topic_rules(config: ConfigView, overrides: Mapping[str, str]) -> TopicRules:
    """Return what the controller needs to know of a topic's configuration."""
    found = topic_config(config, overrides)
    return TopicRules(found.unclean_leader_election_enable, found.min_insync_replicas, found.flush_before_ack)


def topic_defaults(config: ConfigView) -> TopicDefaults:
    """Return the defaults and limits of new topics; all are dynamic."""
    return TopicDefaults(
        config.get(keys.NUM_PARTITIONS),
        config.get(keys.DEFAULT_REPLICATION_FACTOR),
        config.get(keys.MAX_TOPICS),
        config.get(keys.MAX_PARTITIONS_PER_BROKER),
    )


def cleaner_settings(config: ConfigView) -> CleanerSettings:
    """Return the settings of the log cleaner; all but the first are dynamic."""
    return CleanerSettings(
        enable=config.get(keys.LOG_CLEANER_ENABLE),
        backoff_ms=config.get(keys.LOG_CLEANER_BACKOFF_MS),
        threads=config.get(keys.LOG_CLEANER_THREADS),
        dedupe_buffer_size=config.get(keys.LOG_CLEANER_DEDUPE_BUFFER_SIZE),
        max_bytes_per_second=config.get(keys.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND),
    )


def scrub_settings(config: ConfigView) -> ScrubSettings:
    """Return the settings of the scrubber; all are dynamic."""
    return ScrubSettings(
        interval_ms=config.get(keys.LOG_SCRUB_INTERVAL_MS),
        max_bytes_per_second=config.get(keys.LOG_SCRUB_IO_MAX_BYTES_PER_SECOND),
    )


def most_open_files() -> int:
    """Return the limit of open files of logs: half of the process's descriptors; the rest is for connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, min(4096, soft // 2))


def most_unsynced_files() -> int:
    """Return the limit while files cannot be closed: three quarters, as there are seldom as many connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, soft // 4 * 3)


def most_connections() -> int:
    """Return the limit of connections that leaves enough descriptors for logs, HTTP and other files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, soft - most_open_files() - min(256, soft // 4))


def raise_descriptor_limit() -> None:
    """Raise the process's limit of open files to the user's (like the JVM's ``-XX:+MaxFDLimit``)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft in (hard, resource.RLIM_INFINITY):
        return
    # That of macOS has no bound in name, and one in fact that depends on its version.
    for limit in (UNBOUNDED_DESCRIPTORS, MACOS_DESCRIPTORS) if hard == resource.RLIM_INFINITY else (hard,):
        if soft < limit:
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
                return


def connection_ledger(config: ConfigView, listeners: Iterable[str], protected: str | None = None) -> ConnectionQuotas:
    """
    Return the connection quotas of these listeners; their limits are dynamic.

    :param protected: the listener of the brokers, if they have one of their own.
    """
    names = list(listeners)
    quotas = ConnectionQuotas(connection_limits(config), most_by_descriptors=most_connections(), protected=protected)

    def follow(view: ConfigView) -> None:
        quotas.limits = connection_limits(view)
        quotas.by_listener = {name: view.listener_get(name, keys.MAX_CONNECTIONS) for name in names}

    follow(config)
    config.subscribe((keys.MAX_CONNECTIONS, keys.MAX_CONNECTIONS_PER_IP, keys.MAX_CONNECTIONS_PER_IP_OVERRIDES), follow)
    return quotas


def connection_limits(config: ConfigView) -> ConnectionLimits:
    """Return the settings of the network package."""
    return ConnectionLimits(
        request_max_bytes=config.get(keys.SOCKET_REQUEST_MAX_BYTES),
        max_pending=config.get(keys.QUEUED_MAX_REQUESTS),
        max_connections=config.get(keys.MAX_CONNECTIONS),
        max_connections_per_ip=config.get(keys.MAX_CONNECTIONS_PER_IP),
        per_ip_overrides={ip: int(most) for ip, most in config.get(keys.MAX_CONNECTIONS_PER_IP_OVERRIDES).items()},
        send_buffer=config.get(keys.SOCKET_SEND_BUFFER_BYTES),
        idle_seconds=config.get(keys.CONNECTIONS_MAX_IDLE_MS) / 1000,
    )


def request_memory(config: ConfigView) -> int:
    """Return the memory limit of requests in bytes; −1 in the configuration means no limit."""
    given = config.get(keys.QUEUED_MAX_REQUEST_BYTES)
    return given if given >= 0 else 1 << 62


def metadata_store(config: ConfigView, reactor: Any, wall_clock: Callable[[], float]) -> EmbeddedStore | ZooKeeperStore:
    """
    Return the metadata store: ZooKeeper, or a file in the first log directory.

    :raise ConfigError: ``zookeeper.connect`` cannot be read, or credentials for ZooKeeper are missing.
    """
    zookeeper = config.get(keys.ZOOKEEPER_CONNECT)
    security = ZooKeeperSecurity.of(config)
    if not zookeeper:
        return EmbeddedStore(Path(config.get(keys.LOG_DIRS)[0]) / FILE_NAME, reactor, wall_clock)
    from logbus.metastore.zookeeper_store import ZooKeeperStore

    return ZooKeeperStore(
        ConnectString.parse(zookeeper),
        reactor,
        config.get(keys.ZOOKEEPER_SESSION_TIMEOUT_MS) / 1000,
        config.get(keys.ZOOKEEPER_CONNECTION_TIMEOUT_MS) / 1000,
        config.get(keys.ZOOKEEPER_MAX_IN_FLIGHT_REQUESTS),
        security,
    )
