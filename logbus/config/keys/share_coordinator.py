"""Keys of the share coordinator (KIP-932)."""

from __future__ import annotations

from logbus.config.keys.declare import int16, int32

SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS = int32(
    "share.coordinator.state.topic.num.partitions",
    50,
    "Partitions of ``__share_group_state``; cannot change once the topic exists.",
    at_least=1,
)
SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR = int16(
    "share.coordinator.state.topic.replication.factor",
    3,
    "Replicas of ``__share_group_state``; no more than there are brokers when the topic is created.",
    at_least=1,
)
SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR = int16(
    "share.coordinator.state.topic.min.isr",
    2,
    "``min.insync.replicas`` of ``__share_group_state``; no more than it has replicas.",
    at_least=1,
)
SHARE_COORDINATOR_STATE_TOPIC_SEGMENT_BYTES = int32(
    "share.coordinator.state.topic.segment.bytes",
    100 * 1024 * 1024,
    "Segment size of ``__share_group_state``; whole segments are deleted when the records in them are not needed any "
    "more.",
    at_least=1,
)
SHARE_COORDINATOR_STATE_TOPIC_COMPRESSION_CODEC = int32(
    "share.coordinator.state.topic.compression.codec",
    0,
    "The compression of the records in ``__share_group_state``: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    at_least=0,
    at_most=4,
)
SHARE_COORDINATOR_SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT = int32(
    "share.coordinator.snapshot.update.records.per.snapshot",
    500,
    "Number of changes of a share partition's state between two records with the whole state.",
    at_least=0,
    at_most=500,
)
SHARE_COORDINATOR_LOAD_BUFFER_SIZE = int32(
    "share.coordinator.load.buffer.size",
    5 * 1024 * 1024,
    "Bytes read at a time when ``__share_group_state`` is loaded into memory.",
    at_least=1,
)
SHARE_COORDINATOR_WRITE_TIMEOUT_MS = int32(
    "share.coordinator.write.timeout.ms",
    5000,
    "Milliseconds that a write to ``__share_group_state`` may take to reach all in-sync replicas.",
    at_least=1,
)
SHARE_COORDINATOR_STATE_TOPIC_PRUNE_INTERVAL_MS = int32(
    "share.coordinator.state.topic.prune.interval.ms",
    300_000,
    "Milliseconds between two deletions of records in ``__share_group_state`` that are not needed any more.",
    at_least=1,
)
SHARE_COORDINATOR_COLD_PARTITION_SNAPSHOT_INTERVAL_MS = int32(
    "share.coordinator.cold.partition.snapshot.interval.ms",
    300_000,
    "Milliseconds after which a share partition's whole state is written although it does not change, so that older "
    "records can be deleted.",
    at_least=1,
)
