"""Keys of idempotent producers and transactions."""

from __future__ import annotations

from logbus.config.keys.declare import CLUSTER, boolean, int16, int32

TRANSACTION_MAX_TIMEOUT_MS = int32(
    "transaction.max.timeout.ms", 900_000, "Maximum transaction timeout of a producer.", at_least=1
)
TRANSACTIONAL_ID_EXPIRATION_MS = int32(
    "transactional.id.expiration.ms",
    604_800_000,
    "Milliseconds without a transaction after which a transactional id expires.",
    at_least=1,
)
TRANSACTIONAL_ID_MAX_COUNT = int32(
    "transactional.id.max.count",
    100_000,
    "Maximum number of transactional ids that a broker coordinates; new ones are refused above it. "
    "Each takes about 1 kB of memory.",
    at_least=1,
)
TRANSACTION_MAX_PARTITIONS = int32(
    "transaction.max.partitions",
    10_000,
    "Maximum number of partitions in a transaction.",
    at_least=1,
)
TRANSACTION_MAX_OPEN_PARTITIONS = int32(
    "transaction.max.open.partitions",
    500_000,
    "Maximum number of partitions in all ongoing transactions that a broker coordinates; more are refused until "
    "some have ended.",
    at_least=1,
)
TRANSACTION_STATE_LOG_NUM_PARTITIONS = int32(
    "transaction.state.log.num.partitions",
    50,
    "Partitions of ``__transaction_state``; cannot change once the topic exists.",
    at_least=1,
)
TRANSACTION_STATE_LOG_REPLICATION_FACTOR = int16(
    "transaction.state.log.replication.factor",
    3,
    "Replicas of ``__transaction_state``; no more than there are brokers when the topic is created.",
    at_least=1,
)
TRANSACTION_STATE_LOG_MIN_ISR = int32(
    "transaction.state.log.min.isr",
    2,
    "``min.insync.replicas`` of ``__transaction_state``; no more than it has replicas.",
    at_least=1,
)
TRANSACTION_STATE_LOG_SEGMENT_BYTES = int32(
    "transaction.state.log.segment.bytes",
    100 * 1024 * 1024,
    "Segment size of ``__transaction_state``, small so that compaction and loading are quick.",
    at_least=1,
)
TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE = int32(
    "transaction.state.log.load.buffer.size",
    5 * 1024 * 1024,
    "Bytes read at a time when ``__transaction_state`` is loaded into memory.",
    at_least=1,
)
TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS = int32(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    10_000,
    "Milliseconds between two checks for transactions past their timeout, which are aborted.",
    at_least=1,
)
TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS = int32(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    3_600_000,
    "Milliseconds between two checks for expired transactional ids.",
    at_least=1,
)
TRANSACTION_PARTITION_VERIFICATION_ENABLE = boolean(
    "transaction.partition.verification.enable",
    True,
    "Whether a partition's leader verifies with the coordinator that a transaction is open before its first "
    "records (KIP-890).",
    dynamic=CLUSTER,
)
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS = int32(
    "add.partitions.to.txn.retry.backoff.ms",
    20,
    "Milliseconds between a leader's retries of adding a partition to a transaction while the producer's "
    "previous one is being completed.",
    at_least=1,
)
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS = int32(
    "add.partitions.to.txn.retry.backoff.max.ms",
    2000,
    "Maximum milliseconds of these retries; then the producer gets CONCURRENT_TRANSACTIONS, and retries with a "
    "warning. No more than ``request.timeout.ms``. Kafka's default is 100.",
    at_least=0,
)
PRODUCER_ID_EXPIRATION_MS = int32(
    "producer.id.expiration.ms",
    86_400_000,
    "Milliseconds without records after which a partition's state of a producer expires.",
    at_least=1,
    dynamic=CLUSTER,
)
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = int32(
    "producer.id.expiration.check.interval.ms",
    600_000,
    "Milliseconds between two checks for expired producers.",
    at_least=1,
)
PRODUCER_ID_FLOOD_COUNT = int32(
    "producer.id.flood.count",
    10_000,
    "New producer ids within ten minutes from which on a broker tells of a flood of them; 0: never. A key of logbus.",
    at_least=0,
    dynamic=CLUSTER,
)
