"""Has the conditions of a broker monitored: says by which of its subsystems each kind of condition is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from logbus import conditions as kinds
from logbus.broker.cluster_member import ClusterMember
from logbus.broker.condition_monitor import ConditionMonitor
from logbus.broker.condition_sources import (
    CertificateSource,
    ClockSource,
    FloodSource,
    LatenessSource,
    LogSources,
    MirrorSource,
    PartitionSources,
    RefusalSource,
    RemoteStorageSource,
    SlownessSource,
    Source,
    StoreSource,
)
from logbus.broker.coordinators import Coordinators
from logbus.broker.environment import Environment
from logbus.broker.kafka_server import KafkaServer
from logbus.broker.remote_log import RemoteLogs
from logbus.broker.replication import Replication
from logbus.broker.security import BrokerSecurity
from logbus.conditions import ConditionKind
from logbus.config import keys
from logbus.config.config_key import ConfigKey
from logbus.net.arrivals import Arrivals
from logbus.net.reactor_ticks import ReactorTicks
from logbus.storage.log_manager import LogManager

if TYPE_CHECKING:
    from logbus.mirror.running_mirror import RunningMirror


def condition_monitor(
    env: Environment,
    logs: LogManager,
    member: ClusterMember,
    replication: Replication,
    remote_logs: RemoteLogs,
    coordinators: Coordinators,
    server: KafkaServer,
    security: BrokerSecurity,
    mirrors: Callable[[], Sequence[RunningMirror]],
    ticks: ReactorTicks,
) -> ConditionMonitor:
    """
    Build the monitor, which does not look yet, and declare its metric.

    :param mirrors: returns the mirrors that this broker runs.
    """
    config, seconds, wall_clock = env.config, env.reactor.seconds, env.wall_clock
    log_sources = LogSources(logs)
    partitions = PartitionSources(config.get(keys.BROKER_ID), member.metadata, replication.replicas)

    def flood(what: str, arrivals: Arrivals, enough: ConfigKey[int]) -> Source:
        return FloodSource(seconds, what, arrivals, partial(config.get, enough)).flooded

    sources: Mapping[ConditionKind, Source] = {
        kinds.LOG_DIRECTORY_OFFLINE: log_sources.offline,
        kinds.LOG_DIRECTORY_FULL: log_sources.full,
        kinds.LOG_DIRECTORY_NEARLY_FULL: log_sources.nearly_full,
        kinds.LOG_DIRECTORY_SLOW: SlownessSource(seconds, logs).slow,
        kinds.PARTITIONS_OFFLINE: partitions.offline,
        kinds.PARTITIONS_UNDER_MIN_ISR: partitions.under_min_isr,
        kinds.METADATA_STORE_AWAY: StoreSource(member.store, bool(config.get(keys.ZOOKEEPER_CONNECT))).away,
        kinds.REMOTE_STORAGE_AWAY: RemoteStorageSource(remote_logs.trouble).away,
        kinds.MIRROR_STOPPED: MirrorSource(mirrors).stopped,
        kinds.CERTIFICATE_ENDS: CertificateSource(security, wall_clock).ending,
        kinds.CLOCK_JUMPED: ClockSource(seconds, wall_clock).jumped,
        kinds.REACTOR_LATE: LatenessSource(seconds, ticks.take_longest).late,
        kinds.LOG_UNCLEANABLE: log_sources.uncleanable,
        kinds.LOG_DAMAGED: log_sources.damaged,
        kinds.CONNECTIONS_REFUSED: RefusalSource(seconds, server.net_metrics).refused,
        kinds.GROUP_FLOOD: flood("new groups", coordinators.groups.arrivals, keys.GROUP_FLOOD_COUNT),
        kinds.PRODUCER_FLOOD: flood("new producer ids", server.producer_arrivals, keys.PRODUCER_ID_FLOOD_COUNT),
        kinds.CONNECTION_FLOOD: flood("new connections", server.connections.arrivals, keys.CONNECTION_FLOOD_COUNT),
    }
    monitor = ConditionMonitor(env.reactor, wall_clock, sources)
    monitor.register_metrics(env.registry)
    return monitor
