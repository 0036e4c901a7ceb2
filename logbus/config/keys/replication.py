"""Keys of replication: how followers fetch from leaders."""

from __future__ import annotations

from logbus.config import kinds
from logbus.config.keys.declare import int32, int64, key

REPLICA_LAG_TIME_MAX_MS = int64(
    "replica.lag.time.max.ms",
    30_000,
    "Milliseconds that a follower may go without having caught up before it leaves the in-sync set.",
    at_least=1,
)
REPLICA_FETCH_MIN_BYTES = int32(
    "replica.fetch.min.bytes", 1, "Bytes a leader waits for before it answers a follower.", at_least=0
)
REPLICA_FETCH_WAIT_MAX_MS = int32(
    "replica.fetch.wait.max.ms",
    500,
    "Milliseconds a leader waits for records before it answers a follower anyway.",
    at_least=0,
)
REPLICA_FETCH_MAX_BYTES = int32(
    "replica.fetch.max.bytes",
    1024 * 1024,
    "Bytes of one partition that a follower asks for at a time, up to four times as many where few are busy; "
    "a larger batch comes whole.",
    at_least=0,
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = int32(
    "replica.fetch.response.max.bytes",
    10 * 1024 * 1024,
    "Bytes of all partitions that a follower asks for at a time.",
    at_least=0,
)
REPLICA_FETCH_BACKOFF_MS = int32(
    "replica.fetch.backoff.ms", 1000, "Milliseconds a follower waits at most after a fetch that failed.", at_least=0
)
REPLICA_SOCKET_TIMEOUT_MS = int32(
    "replica.socket.timeout.ms",
    30_000,
    "Milliseconds a follower waits for an answer; no less than ``replica.fetch.wait.max.ms``.",
    at_least=1,
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = int64(
    "replica.high.watermark.checkpoint.interval.ms",
    5000,
    "Milliseconds between two writings of the high watermarks to disk.",
    at_least=1,
)
CONTROLLER_SOCKET_TIMEOUT_MS = int32(
    "controller.socket.timeout.ms",
    30_000,
    "Milliseconds the controller waits for a broker's answer.",
    at_least=1,
)
REPLICA_SELECTOR_CLASS = key(
    kinds.optional(kinds.one_of("rack-aware", "org.apache.kafka.common.replica.RackAwareReplicaSelector", "leader")),
    "replica.selector.class",
    None,
    "Which replica a consumer is sent to: ``rack-aware`` (or Kafka's class of that name): one in the consumer's own "
    "rack, see ``broker.rack``; ``leader`` or nothing: always the leader.",
)
