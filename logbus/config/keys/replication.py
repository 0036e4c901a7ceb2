"""Keys of replication: how followers fetch from leaders."""

from __future__ import annotations

from logbus.config import kinds
from logbus.config.keys.declare import int32, int64, key

REPLICA_LAG_TIME_MAX_MS = int64(
    "replica.lag.time.max.ms",
    30_000,
    "Milliseconds without having caught up after which a follower is removed from the in-sync replicas.",
    at_least=1,
)
REPLICA_FETCH_MIN_BYTES = int32(
    "replica.fetch.min.bytes", 1, "Minimum bytes of a fetch response to a follower.", at_least=0
)
REPLICA_FETCH_WAIT_MAX_MS = int32(
    "replica.fetch.wait.max.ms",
    500,
    "Maximum milliseconds that a follower's fetch waits for records.",
    at_least=0,
)
REPLICA_FETCH_MAX_BYTES = int32(
    "replica.fetch.max.bytes",
    1024 * 1024,
    "Maximum bytes of a partition in a follower's fetch, up to four times as many if few partitions are active; "
    "a larger batch is returned whole.",
    at_least=0,
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = int32(
    "replica.fetch.response.max.bytes",
    10 * 1024 * 1024,
    "Maximum bytes of all partitions in a follower's fetch.",
    at_least=0,
)
REPLICA_FETCH_BACKOFF_MS = int32(
    "replica.fetch.backoff.ms", 1000, "Maximum milliseconds that a follower waits after a failed fetch.", at_least=0
)
REPLICA_SOCKET_TIMEOUT_MS = int32(
    "replica.socket.timeout.ms",
    30_000,
    "Milliseconds a follower waits for a response; at least ``replica.fetch.wait.max.ms``.",
    at_least=1,
)
REPLICA_SOCKET_RECEIVE_BUFFER_BYTES = int32(
    "replica.socket.receive.buffer.bytes",
    -1,
    "Size of the kernel's receive buffer for what a follower fetches from a leader, in bytes; −1: the kernel adapts it "
    "to the connection.",
    at_least=-1,
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = int64(
    "replica.high.watermark.checkpoint.interval.ms",
    5000,
    "Milliseconds between two checkpoints of the high watermarks.",
    at_least=1,
)
CONTROLLER_SOCKET_TIMEOUT_MS = int32(
    "controller.socket.timeout.ms",
    30_000,
    "Milliseconds the controller waits for a broker's response.",
    at_least=1,
)
REPLICA_SELECTOR_CLASS = key(
    kinds.optional(kinds.one_of("rack-aware", "org.apache.kafka.common.replica.RackAwareReplicaSelector", "leader")),
    "replica.selector.class",
    None,
    "The replica that consumers read from: ``rack-aware`` (or Kafka's class of that name): one in the consumer's "
    "rack, see ``broker.rack``; ``leader`` or empty: the leader.",
)
