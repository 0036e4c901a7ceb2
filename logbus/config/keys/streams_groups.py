"""Keys of streams groups (KIP-1071)."""

from __future__ import annotations

from logbus.config.keys.declare import CLUSTER, int32

GROUP_STREAMS_SESSION_TIMEOUT_MS = int32(
    "group.streams.session.timeout.ms",
    45_000,
    "Session timeout of members of streams groups, in milliseconds.",
    at_least=1,
    group="streams.session.timeout.ms",
)
GROUP_STREAMS_MIN_SESSION_TIMEOUT_MS = int32(
    "group.streams.min.session.timeout.ms", 45_000, "Shortest such session timeout of any group.", at_least=1
)
GROUP_STREAMS_MAX_SESSION_TIMEOUT_MS = int32(
    "group.streams.max.session.timeout.ms", 60_000, "Longest such session timeout of any group.", at_least=1
)
GROUP_STREAMS_HEARTBEAT_INTERVAL_MS = int32(
    "group.streams.heartbeat.interval.ms",
    5000,
    "Heartbeat interval given to members of streams groups, in milliseconds.",
    at_least=1,
    group="streams.heartbeat.interval.ms",
)
GROUP_STREAMS_MIN_HEARTBEAT_INTERVAL_MS = int32(
    "group.streams.min.heartbeat.interval.ms", 5000, "Shortest such heartbeat interval of any group.", at_least=1
)
GROUP_STREAMS_MAX_HEARTBEAT_INTERVAL_MS = int32(
    "group.streams.max.heartbeat.interval.ms", 15_000, "Longest such heartbeat interval of any group.", at_least=1
)
GROUP_STREAMS_ASSIGNMENT_INTERVAL_MS = int32(
    "group.streams.assignment.interval.ms",
    1000,
    "Least time between two target assignments of a streams group with several members, in milliseconds.",
    at_least=0,
    dynamic=CLUSTER,
    group="streams.assignment.interval.ms",
)
GROUP_STREAMS_MIN_ASSIGNMENT_INTERVAL_MS = int32(
    "group.streams.min.assignment.interval.ms", 0, "Shortest such time of any group.", at_least=0
)
GROUP_STREAMS_MAX_ASSIGNMENT_INTERVAL_MS = int32(
    "group.streams.max.assignment.interval.ms", 15_000, "Longest such time of any group.", at_least=0
)
GROUP_STREAMS_MAX_SIZE = int32(
    "group.streams.max.size", 2**31 - 1, "Maximum number of members of a streams group.", at_least=1
)
GROUP_STREAMS_NUM_STANDBY_REPLICAS = int32(
    "group.streams.num.standby.replicas",
    0,
    "How many members keep a copy of the state of each task, beside the member that works on it.",
    at_least=0,
    group="streams.num.standby.replicas",
)
GROUP_STREAMS_MAX_STANDBY_REPLICAS = int32(
    "group.streams.max.standby.replicas", 2, "The most such copies of any group.", at_least=0
)
GROUP_STREAMS_INITIAL_REBALANCE_DELAY_MS = int32(
    "group.streams.initial.rebalance.delay.ms",
    3000,
    "How long a streams group that was empty waits for more members before it assigns tasks, in milliseconds.",
    at_least=0,
    group="streams.initial.rebalance.delay.ms",
)
