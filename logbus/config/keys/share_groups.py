"""Keys of share groups (KIP-932)."""

from __future__ import annotations

from logbus.config.config_key import Scope
from logbus.config.keys.declare import CLUSTER, boolean, choice, int32, key
from logbus.config.kinds import ConfigType, Kind
from logbus.config.offset_reset import LATEST, OffsetReset, parse_offset_reset

GROUP_SHARE_SESSION_TIMEOUT_MS = int32(
    "group.share.session.timeout.ms",
    45_000,
    "Session timeout of members of share groups, in milliseconds.",
    at_least=1,
    group="share.session.timeout.ms",
)
GROUP_SHARE_MIN_SESSION_TIMEOUT_MS = int32(
    "group.share.min.session.timeout.ms", 45_000, "Shortest such session timeout of any group.", at_least=1
)
GROUP_SHARE_MAX_SESSION_TIMEOUT_MS = int32(
    "group.share.max.session.timeout.ms", 60_000, "Longest such session timeout of any group.", at_least=1
)
GROUP_SHARE_HEARTBEAT_INTERVAL_MS = int32(
    "group.share.heartbeat.interval.ms",
    5000,
    "Heartbeat interval given to members of share groups, in milliseconds.",
    at_least=1,
    group="share.heartbeat.interval.ms",
)
GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS = int32(
    "group.share.min.heartbeat.interval.ms", 5000, "Shortest such heartbeat interval of any group.", at_least=1
)
GROUP_SHARE_MAX_HEARTBEAT_INTERVAL_MS = int32(
    "group.share.max.heartbeat.interval.ms", 15_000, "Longest such heartbeat interval of any group.", at_least=1
)
GROUP_SHARE_ASSIGNMENT_INTERVAL_MS = int32(
    "group.share.assignment.interval.ms",
    1000,
    "Least time between two target assignments of a share group with several members, in milliseconds.",
    at_least=0,
    dynamic=CLUSTER,
    group="share.assignment.interval.ms",
)
GROUP_SHARE_MIN_ASSIGNMENT_INTERVAL_MS = int32(
    "group.share.min.assignment.interval.ms", 0, "Shortest such time of any group.", at_least=0
)
GROUP_SHARE_MAX_ASSIGNMENT_INTERVAL_MS = int32(
    "group.share.max.assignment.interval.ms", 15_000, "Longest such time of any group.", at_least=0
)
GROUP_SHARE_MAX_SIZE = int32("group.share.max.size", 200, "Maximum number of members of a share group.", at_least=1)
GROUP_SHARE_DELIVERY_COUNT_LIMIT = int32(
    "group.share.delivery.count.limit",
    5,
    "How often a record is delivered to a share group at most; after that it is archived.",
    at_least=1,
    group="share.delivery.count.limit",
)
GROUP_SHARE_MIN_DELIVERY_COUNT_LIMIT = int32(
    "group.share.min.delivery.count.limit", 2, "Lowest such limit of any group.", at_least=1
)
GROUP_SHARE_MAX_DELIVERY_COUNT_LIMIT = int32(
    "group.share.max.delivery.count.limit", 10, "Highest such limit of any group.", at_least=1
)
GROUP_SHARE_RECORD_LOCK_DURATION_MS = int32(
    "group.share.record.lock.duration.ms",
    30_000,
    "Milliseconds for which a record that was delivered to a share consumer is not delivered to another one.",
    at_least=1,
    group="share.record.lock.duration.ms",
)
GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS = int32(
    "group.share.min.record.lock.duration.ms", 15_000, "Shortest such duration of any group.", at_least=1
)
GROUP_SHARE_MAX_RECORD_LOCK_DURATION_MS = int32(
    "group.share.max.record.lock.duration.ms", 60_000, "Longest such duration of any group.", at_least=1
)
GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS = int32(
    "group.share.partition.max.record.locks",
    2000,
    "Maximum number of records of a share partition that are being delivered, or wait for others before them.",
    at_least=1,
    group="share.partition.max.record.locks",
)
GROUP_SHARE_MIN_PARTITION_MAX_RECORD_LOCKS = int32(
    "group.share.min.partition.max.record.locks", 100, "Lowest such maximum of any group.", at_least=1
)
GROUP_SHARE_MAX_PARTITION_MAX_RECORD_LOCKS = int32(
    "group.share.max.partition.max.record.locks", 4000, "Highest such maximum of any group.", at_least=1
)
GROUP_SHARE_MAX_SHARE_SESSIONS = int32(
    "group.share.max.share.sessions", 2000, "Maximum number of share sessions of a broker.", at_least=1
)

_RESET = Kind(
    ConfigType.STRING, parse_offset_reset, str, "latest, earliest, or by_duration:PnDTnHnMn.nS as in ISO 8601"
)
SHARE_AUTO_OFFSET_RESET = key(
    _RESET,
    "share.auto.offset.reset",
    OffsetReset(LATEST),
    "Where a share group begins to read a partition for which it has no state.",
    group="share.auto.offset.reset",
    scope=Scope.GROUP,
)
SHARE_ISOLATION_LEVEL = choice(
    "share.isolation.level",
    "read_uncommitted",
    ("read_uncommitted", "read_committed"),
    "Whether a share group reads records of transactions that are open or aborted.",
    group="share.isolation.level",
    scope=Scope.GROUP,
)
SHARE_RENEW_ACKNOWLEDGE_ENABLE = boolean(
    "share.renew.acknowledge.enable",
    True,
    "Whether share consumers may renew the locks of records that they have (KIP-1222).",
    group="share.renew.acknowledge.enable",
    scope=Scope.GROUP,
)
