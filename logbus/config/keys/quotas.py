"""Keys of quotas of clients and of replication."""

from __future__ import annotations

from logbus.config.keys.declare import CLUSTER, int32, int64
from logbus.config.kinds import LONG_MAX

QUOTA_PRODUCER_DEFAULT = int64(
    "quota.producer.default",
    LONG_MAX,
    "Bytes a second that a client may produce to a broker while it has no quota of its own.",
    at_least=1,
)
QUOTA_CONSUMER_DEFAULT = int64(
    "quota.consumer.default",
    LONG_MAX,
    "Bytes a second that a client may fetch from a broker while it has no quota of its own.",
    at_least=1,
)
QUOTA_WINDOW_NUM = int32(
    "quota.window.num", 11, "A client over its quota waits for this many windows at most.", at_least=1
)
QUOTA_WINDOW_SIZE_SECONDS = int32(
    "quota.window.size.seconds",
    1,
    "Seconds in each of those windows; a client may take so much of its quota at once.",
    at_least=1,
)
CONTROLLER_QUOTA_WINDOW_NUM = int32(
    "controller.quota.window.num", 11, "Number of windows for measuring the rate of topic changes.", at_least=1
)
CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS = int32(
    "controller.quota.window.size.seconds", 1, "Seconds in each of those windows.", at_least=1
)
REPLICATION_QUOTA_WINDOW_SIZE_SECONDS = int32(
    "replication.quota.window.size.seconds",
    1,
    "Seconds of its rate that throttled replication may send at once.",
    at_least=1,
)
LEADER_REPLICATION_THROTTLED_RATE = int64(
    "leader.replication.throttled.rate",
    LONG_MAX,
    "Bytes a second that a leader sends to throttled followers.",
    at_least=0,
    dynamic=CLUSTER,
)
FOLLOWER_REPLICATION_THROTTLED_RATE = int64(
    "follower.replication.throttled.rate",
    LONG_MAX,
    "Bytes a second that throttled followers fetch.",
    at_least=0,
    dynamic=CLUSTER,
)
REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND = int64(
    "replica.alter.log.dirs.io.max.bytes.per.second",
    LONG_MAX,
    "Bytes a second that are copied when logs move between the log directories of a broker.",
    at_least=1,
    dynamic=CLUSTER,
)
