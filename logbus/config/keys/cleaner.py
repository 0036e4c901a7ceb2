"""Keys of the cleanup policy and the log cleaner."""

from __future__ import annotations

import sys

from logbus.config.keys.declare import CLUSTER, boolean, decimal, int32, int64, texts
from logbus.config.kinds import LONG_MAX

LOG_CLEANUP_POLICY = texts(
    "log.cleanup.policy",
    ("delete",),
    "What happens to old segments: ``delete`` removes them by retention, ``compact`` keeps the last record of each "
    "key; both together are allowed. An empty list keeps everything for ever.",
    choices=("compact", "delete"),
    topic="cleanup.policy",
    dynamic=CLUSTER,
)
LOG_CLEANER_ENABLE = boolean(
    "log.cleaner.enable", True, "Whether the log cleaner runs; without it logs are not compacted."
)
LOG_CLEANER_THREADS = int32(
    "log.cleaner.threads",
    1,
    "How many logs are cleaned at a time, each in a thread. A change is at most a doubling or a halving.",
    at_least=1,
    dynamic=CLUSTER,
)
LOG_CLEANER_BACKOFF_MS = int64(
    "log.cleaner.backoff.ms",
    15_000,
    "Milliseconds the cleaner sleeps when no log needs it.",
    at_least=0,
    dynamic=CLUSTER,
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE = int64(
    "log.cleaner.dedupe.buffer.size",
    128 * 1024 * 1024,
    "Bytes of memory for the keys of the logs being cleaned, 24 per key, divided evenly among ``log.cleaner.threads``; "
    "a log with more keys takes several rounds.",
    at_least=1024 * 1024,
    dynamic=CLUSTER,
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = decimal(
    "log.cleaner.io.max.bytes.per.second",
    sys.float_info.max,
    "Maximum bytes a second that all threads of the cleaner together read and write.",
    at_least=1.0,
    at_most=sys.float_info.max,
    dynamic=CLUSTER,
)
LOG_CLEANER_MIN_CLEANABLE_RATIO = decimal(
    "log.cleaner.min.cleanable.ratio",
    0.5,
    "Share of a log that must be uncleaned before it is cleaned.",
    at_least=0.0,
    at_most=1.0,
    topic="min.cleanable.dirty.ratio",
    dynamic=CLUSTER,
)
LOG_CLEANER_DELETE_RETENTION_MS = int64(
    "log.cleaner.delete.retention.ms",
    86_400_000,
    "Milliseconds that delete markers of a compacted topic are kept, so that readers see them.",
    at_least=0,
    topic="delete.retention.ms",
    dynamic=CLUSTER,
)
LOG_CLEANER_MIN_COMPACTION_LAG_MS = int64(
    "log.cleaner.min.compaction.lag.ms",
    0,
    "Minimum milliseconds before a record can be compacted.",
    at_least=0,
    topic="min.compaction.lag.ms",
    dynamic=CLUSTER,
)
LOG_CLEANER_MAX_COMPACTION_LAG_MS = int64(
    "log.cleaner.max.compaction.lag.ms",
    LONG_MAX,
    "Maximum milliseconds before a record is compacted, whatever the dirty ratio.",
    at_least=1,
    topic="max.compaction.lag.ms",
    dynamic=CLUSTER,
)
