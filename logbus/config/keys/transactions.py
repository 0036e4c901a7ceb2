"""Keys of idempotent producers and transactions."""

from __future__ import annotations

from logbus.config.keys.declare import CLUSTER, boolean, int16, int32

TRANSACTION_MAX_TIMEOUT_MS = int32(
    "transaction.max.timeout.ms", 900_000, "Longest transaction timeout a producer may ask for.", at_least=1
)
TRANSACTIONAL_ID_EXPIRATION_MS = int32(
    "transactional.id.expiration.ms",
    604_800_000,
    "Milliseconds without a transaction after which a transactional id is forgotten.",
    at_least=1,
)
TRANSACTIONAL_ID_MAX_COUNT = int32(
    "transactional.id.max.count",
    100_000,
    "Most transactional ids that a broker coordinates; no more are begun with then. Each takes about 1 kB of memory.",
    at_least=1,
)
TRANSACTION_MAX_PARTITIONS = int32(
    "transaction.max.partitions",
    10_000,
    "Most partitions that take part in one transaction.",
    at_least=1,
)
TRANSACTION_MAX_OPEN_PARTITIONS = int32(
    "transaction.max.open.partitions",
    500_000,
    "Most partitions that take part in all transactions together that a broker coordinates and that are under way; "
    "no more come in until some have ended.",
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
    "Milliseconds between two looks for transactions past their timeout, which are aborted.",
    at_least=1,
)
TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS = int32(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    3_600_000,
    "Milliseconds between two looks for transactional ids to forget.",
    at_least=1,
)
TRANSACTION_PARTITION_VERIFICATION_ENABLE = boolean(
    "transaction.partition.verification.enable",
    True,
    "Whether a partition leader asks the coordinator that a transaction is open before it takes its first records "
    "(KIP-890).",
    dynamic=CLUSTER,
)
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS = int32(
    "add.partitions.to.txn.retry.backoff.ms",
    20,
    "Milliseconds before the leader of a partition asks again to add it to a transaction, while the producer's last "
    "transaction is being ended.",
    at_least=1,
)
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS = int32(
    "add.partitions.to.txn.retry.backoff.max.ms",
    2000,
    "Milliseconds that it asks again for; then the producer gets CONCURRENT_TRANSACTIONS, warns, and tries again. No "
    "more than ``request.timeout.ms``. Kafka's default is 100.",
    at_least=0,
)
PRODUCER_ID_EXPIRATION_MS = int32(
    "producer.id.expiration.ms",
    86_400_000,
    "Milliseconds without records after which a partition forgets a producer's sequence.",
    at_least=1,
    dynamic=CLUSTER,
)
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = int32(
    "producer.id.expiration.check.interval.ms",
    600_000,
    "Milliseconds between two looks for producers to forget.",
    at_least=1,
)
