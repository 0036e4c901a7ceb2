"""Keys of consumer groups and committed offsets."""

from __future__ import annotations

from logbus.config.keys.declare import CLUSTER, choice, int16, int32, int64, texts

GROUP_MIN_SESSION_TIMEOUT_MS = int32(
    "group.min.session.timeout.ms", 6000, "Shortest session timeout a member may ask for, in milliseconds.", at_least=1
)
GROUP_MAX_SESSION_TIMEOUT_MS = int32(
    "group.max.session.timeout.ms",
    1_800_000,
    "Longest session timeout a member may ask for, in milliseconds.",
    at_least=1,
)
GROUP_INITIAL_REBALANCE_DELAY_MS = int32(
    "group.initial.rebalance.delay.ms",
    3000,
    "Milliseconds that an empty group waits for more members before its first rebalance; 0 suits tests.",
    at_least=0,
)
GROUP_MAX_SIZE = int32("group.max.size", 5000, "Most members of one group.", at_least=1)
GROUP_MAX_COUNT = int32(
    "group.max.count",
    100_000,
    "Maximum number of groups that a broker coordinates; requests that would create more are "
    "refused. Each takes about 4 kB of memory.",
    at_least=1,
)
GROUP_FLOOD_COUNT = int32(
    "group.flood.count",
    2000,
    "New groups within ten minutes from which on a broker tells of a flood of them; 0: never. A key of logbus.",
    at_least=0,
    dynamic=CLUSTER,
)

GROUP_MEMBERS_MAX_BYTES = int64(
    "group.members.max.bytes",
    256 * 1024 * 1024,
    "Maximum bytes of members' metadata, subscriptions and names, over all groups of a broker. Members that "
    "would exceed it get a retriable error.",
    at_least=0,
)

GROUP_COORDINATOR_REBALANCE_PROTOCOLS = texts(
    "group.coordinator.rebalance.protocols",
    ("classic", "consumer"),
    "Enabled group protocols; ``consumer`` is that of KIP-848. The classic protocol is always enabled, and so are "
    "share groups and streams groups, for which Kafka had ``share`` and ``streams``.",
    choices=("classic", "consumer", "share", "streams"),
    empty=False,
)
GROUP_CONSUMER_SESSION_TIMEOUT_MS = int32(
    "group.consumer.session.timeout.ms",
    45_000,
    "Session timeout of members of the ``consumer`` protocol, in milliseconds.",
    at_least=1,
    group="consumer.session.timeout.ms",
)
GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS = int32(
    "group.consumer.min.session.timeout.ms", 45_000, "Shortest such session timeout of any group.", at_least=1
)
GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS = int32(
    "group.consumer.max.session.timeout.ms", 60_000, "Longest such session timeout of any group.", at_least=1
)
GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = int32(
    "group.consumer.heartbeat.interval.ms",
    5000,
    "Heartbeat interval given to members of the ``consumer`` protocol, in milliseconds.",
    at_least=1,
    group="consumer.heartbeat.interval.ms",
)
GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS = int32(
    "group.consumer.min.heartbeat.interval.ms", 5000, "Shortest such heartbeat interval of any group.", at_least=1
)
GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS = int32(
    "group.consumer.max.heartbeat.interval.ms", 15_000, "Longest such heartbeat interval of any group.", at_least=1
)
GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS = int32(
    "group.consumer.assignment.interval.ms",
    1000,
    "Least time between two target assignments of a ``consumer`` group with several members, in milliseconds.",
    at_least=0,
    dynamic=CLUSTER,
    group="consumer.assignment.interval.ms",
)
GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS = int32(
    "group.consumer.min.assignment.interval.ms", 0, "Shortest such time of any group.", at_least=0
)
GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS = int32(
    "group.consumer.max.assignment.interval.ms", 15_000, "Longest such time of any group.", at_least=0
)
GROUP_CONSUMER_MAX_SIZE = int32(
    "group.consumer.max.size", 5000, "Maximum number of members of a group of the ``consumer`` protocol.", at_least=1
)
GROUP_CONSUMER_MIGRATION_POLICY = choice(
    "group.consumer.migration.policy",
    "bidirectional",
    ("disabled", "upgrade", "downgrade", "bidirectional"),
    "Which way a running group may move between the ``classic`` and the ``consumer`` protocol.",
)

OFFSET_METADATA_MAX_BYTES = int32(
    "offset.metadata.max.bytes", 4096, "Maximum size of the metadata of a committed offset, in bytes.", at_least=0
)
OFFSETS_TOPIC_NUM_PARTITIONS = int32(
    "offsets.topic.num.partitions",
    50,
    "Partitions of ``__consumer_offsets``; cannot change once the topic exists.",
    at_least=1,
)
OFFSETS_TOPIC_REPLICATION_FACTOR = int16(
    "offsets.topic.replication.factor",
    3,
    "Replicas of ``__consumer_offsets``; no more than there are brokers when the topic is created.",
    at_least=1,
)
OFFSETS_TOPIC_SEGMENT_BYTES = int32(
    "offsets.topic.segment.bytes",
    100 * 1024 * 1024,
    "Segment size of ``__consumer_offsets``, small so that compaction and loading are quick.",
    at_least=1,
)
OFFSETS_TOPIC_COMPRESSION_CODEC = int32(
    "offsets.topic.compression.codec",
    0,
    "Codec of batches in ``__consumer_offsets``: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    at_least=0,
    at_most=4,
)
OFFSETS_LOAD_BUFFER_SIZE = int32(
    "offsets.load.buffer.size",
    5 * 1024 * 1024,
    "Bytes read at a time when ``__consumer_offsets`` is loaded into memory.",
    at_least=1,
)
OFFSETS_RETENTION_MINUTES = int32(
    "offsets.retention.minutes",
    10_080,
    "Minutes that offsets are kept once their group is empty (or no longer subscribed).",
    at_least=1,
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = int64(
    "offsets.retention.check.interval.ms", 600_000, "Milliseconds between two checks for expired offsets.", at_least=1
)
OFFSETS_COMMIT_TIMEOUT_MS = int32(
    "offsets.commit.timeout.ms",
    5000,
    "Milliseconds a commit waits for all in-sync replicas of ``__consumer_offsets``.",
    at_least=1,
)
