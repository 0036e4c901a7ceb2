"""Keys of segments, indexes, flushing and retention."""

from __future__ import annotations

import sys

from logbus.config.config_key import ConfigKey
from logbus.config.keys.declare import CLUSTER, boolean, choice, decimal, int32, int64, same, text, times
from logbus.config.kinds import INT_MAX, LONG_MAX, ConfigType, integer, optional

MINUTE_MS = 60_000
HOUR_MS = 3_600_000

LOG_SEGMENT_BYTES = int32(
    "log.segment.bytes",
    1024**3,
    "Size at which a segment is full, in bytes.",
    at_least=14,
    topic="segment.bytes",
    dynamic=CLUSTER,
)
LOG_ROLL_HOURS = int32("log.roll.hours", 168, "Like ``log.roll.ms``, in hours.", at_least=1)
LOG_ROLL_MS = int64(
    "log.roll.ms",
    168 * HOUR_MS,
    "Milliseconds after which a new segment is begun even if the current one is not full.",
    at_least=1,
    topic="segment.ms",
    dynamic=CLUSTER,
    fallbacks=(times(LOG_ROLL_HOURS, HOUR_MS),),
)
LOG_ROLL_JITTER_HOURS = int32("log.roll.jitter.hours", 0, "Like ``log.roll.jitter.ms``, in hours.", at_least=0)
LOG_ROLL_JITTER_MS = int64(
    "log.roll.jitter.ms",
    0,
    "Maximum random milliseconds subtracted from ``log.roll.ms``, so that logs do not roll at once.",
    at_least=0,
    topic="segment.jitter.ms",
    dynamic=CLUSTER,
    fallbacks=(times(LOG_ROLL_JITTER_HOURS, HOUR_MS),),
)
LOG_INDEX_SIZE_MAX_BYTES = int32(
    "log.index.size.max.bytes",
    10 * 1024 * 1024,
    "Size at which a segment's index is full, and with it the segment, in bytes.",
    at_least=4,
    topic="segment.index.bytes",
    dynamic=CLUSTER,
)
LOG_INDEX_INTERVAL_BYTES = int32(
    "log.index.interval.bytes",
    4096,
    "Bytes of records between two entries of the offset index.",
    at_least=0,
    topic="index.interval.bytes",
    dynamic=CLUSTER,
)
LOG_SEGMENT_DELETE_DELAY_MS = int64(
    "log.segment.delete.delay.ms",
    MINUTE_MS,
    "Milliseconds between a segment's deletion and the removal of its file.",
    at_least=0,
    topic="file.delete.delay.ms",
    dynamic=CLUSTER,
)

LOG_RETENTION_HOURS = int32(
    "log.retention.hours", 168, "Like ``log.retention.ms``, in hours; −1: no limit.", at_least=-1
)
LOG_RETENTION_MINUTES: ConfigKey[int | None] = ConfigKey(
    "log.retention.minutes",
    optional(integer(ConfigType.INT, -1, INT_MAX)),
    None,
    "Like ``log.retention.ms``, in minutes; −1: no limit. Counts more than ``log.retention.hours``.",
)
LOG_RETENTION_MS = int64(
    "log.retention.ms",
    168 * HOUR_MS,
    "Milliseconds that records are kept, by their timestamps, before their segment is deleted; −1: no limit.",
    at_least=-1,
    topic="retention.ms",
    dynamic=CLUSTER,
    fallbacks=(times(LOG_RETENTION_MINUTES, MINUTE_MS), times(LOG_RETENTION_HOURS, HOUR_MS)),
)
LOG_RETENTION_BYTES = int64(
    "log.retention.bytes",
    -1,
    "Bytes of a partition above which its oldest segments are deleted; −1: no limit.",
    topic="retention.bytes",
    dynamic=CLUSTER,
)
LOG_DELETE_POLICY = text(
    "log.delete.policy",
    "time-and-size",
    "The retention policy: ``time-and-size``, as in Kafka, or the name of a plugin that provides "
    "``logbus.storage.istorage.IDeletePolicy``.",
)
LOG_RETENTION_CHECK_INTERVAL_MS = int64(
    "log.retention.check.interval.ms", 300_000, "Milliseconds between two checks for segments to delete.", at_least=1
)

LOG_DIR_SPACE_CHECK_INTERVAL_MS = int32(
    "log.dir.space.check.interval.ms",
    10_000,
    "Milliseconds between two measurements of the free space of each log directory. A key of logbus.",
    at_least=1,
)
LOG_DIR_USAGE_WARN_RATIO = decimal(
    "log.dir.usage.warn.ratio",
    0.9,
    "The log has a warning when more than this share of a log directory's file system is used; 1: never. A key of "
    "logbus.",
    at_least=0.0,
    at_most=1.0,
)

LOG_DIRS_ALLOW_MISSING = boolean(
    "log.dirs.allow.missing",
    False,
    "Whether the broker starts without a log directory that it had, or with a new one in its place. Partitions that "
    "were there begin without records, or are copied from other replicas. A key of logbus.",
)

LOG_STRAY_RETENTION_MS = int64(
    "log.stray.retention.ms",
    168 * HOUR_MS,
    "Milliseconds that a broker keeps the log of a partition that its cluster does not know, or has on other brokers, "
    "in a directory whose name ends in ``-stray``. It is used again when the partition is known to be here. −1: for "
    "good; 0: it is deleted at once. A key of logbus.",
    at_least=-1,
)

LOG_FLUSH_BEFORE_ACK = boolean(
    "log.flush.before.ack",
    True,
    "Whether a produce with acks=all is answered only when its records are on disk (fdatasync) at every in-sync "
    "replica, so that a power cut loses none; ``false`` is Kafka's default: only replication protects them. A "
    "key of logbus.",
    topic="flush.before.ack",
    dynamic=CLUSTER,
)
LOG_FLUSH_INTERVAL_MESSAGES = int64(
    "log.flush.interval.messages",
    LONG_MAX,
    "Records after which a log is flushed to disk, however they were acknowledged.",
    at_least=1,
    topic="flush.messages",
    dynamic=CLUSTER,
)
LOG_FLUSH_SCHEDULER_INTERVAL_MS = int64(
    "log.flush.scheduler.interval.ms", LONG_MAX, "Counts as ``log.flush.interval.ms`` when that is not set."
)
LOG_FLUSH_INTERVAL_MS = int64(
    "log.flush.interval.ms",
    LONG_MAX,
    "Milliseconds after which appended records are flushed to disk, however they were acknowledged.",
    at_least=0,
    topic="flush.ms",
    dynamic=CLUSTER,
    fallbacks=(same(LOG_FLUSH_SCHEDULER_INTERVAL_MS),),
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = int32(
    "log.flush.offset.checkpoint.interval.ms",
    MINUTE_MS,
    "Milliseconds between two checkpoints of the recovery points.",
    at_least=1,
)

LOG_SCRUB_INTERVAL_MS = int64(
    "log.scrub.interval.ms",
    7 * 24 * HOUR_MS,
    "Milliseconds from the end of one check of all closed segments for damage to the beginning of the next; -1: none.",
    at_least=-1,
    dynamic=CLUSTER,
)
LOG_SCRUB_IO_MAX_BYTES_PER_SECOND = decimal(
    "log.scrub.io.max.bytes.per.second",
    4.0 * 1024 * 1024,
    "Maximum bytes a second that the check of closed segments reads.",
    at_least=1.0,
    at_most=sys.float_info.max,
    dynamic=CLUSTER,
)

LOG_MESSAGE_TIMESTAMP_TYPE = choice(
    "log.message.timestamp.type",
    "CreateTime",
    ("CreateTime", "LogAppendTime"),
    "The clock of records' timestamps: the producer's or the broker's.",
    topic="message.timestamp.type",
    dynamic=CLUSTER,
)
LOG_MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS = int64(
    "log.message.timestamp.difference.max.ms",
    LONG_MAX,
    "Counts for both ``log.message.timestamp.before.max.ms`` and ``…after.max.ms`` when they are not set.",
    at_least=0,
)
LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS = int64(
    "log.message.timestamp.before.max.ms",
    LONG_MAX,
    "Milliseconds that a producer's timestamp may lie behind the broker's clock.",
    at_least=0,
    topic="message.timestamp.before.max.ms",
    dynamic=CLUSTER,
    fallbacks=(same(LOG_MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS),),
)
LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS = int64(
    "log.message.timestamp.after.max.ms",
    HOUR_MS,
    "Milliseconds that a producer's timestamp may lie ahead of the broker's clock.",
    at_least=0,
    topic="message.timestamp.after.max.ms",
    dynamic=CLUSTER,
    fallbacks=(same(LOG_MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS),),
)
