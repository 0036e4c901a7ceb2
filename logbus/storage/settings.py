"""Settings of a broker's storage: logs, cleaner and scrubber. Topics have settings of their own."""

from __future__ import annotations

from attrs import frozen


@frozen
class StorageSettings:
    """
    Kafka's broker keys that concern storage, times in ms.

    :ivar retention_check_interval_ms: ``log.retention.check.interval.ms``.
    :ivar recovery_checkpoint_interval_ms: ``log.flush.offset.checkpoint.interval.ms``; log start offsets are
        checkpointed with them.
    :ivar high_watermark_checkpoint_interval_ms: ``replica.high.watermark.checkpoint.interval.ms``.
    :ivar producer_id_expiration_ms: ``producer.id.expiration.ms``.
    :ivar producer_id_check_interval_ms: ``producer.id.expiration.check.interval.ms``.
    :ivar write_back_bytes: unsynced bytes of a log after which it is synced in the background, so that recovery has
        little to scan; ``write_back_interval_ms``: the least time between two of these syncs, unless the log rolls.
    :ivar max_open_files: files of logs kept open; ``max_unsynced_files``: those open even if all have unsynced data.
    :ivar space_check_interval_ms: ``log.dir.space.check.interval.ms``.
    :ivar usage_warn_ratio: ``log.dir.usage.warn.ratio``, from 0 to 1.
    :ivar allow_missing_directories: ``log.dirs.allow.missing``.
    :ivar stray_retention_ms: ``log.stray.retention.ms``.
    :ivar max_clock_step_ms: retention ignores a jump of the wall clock ahead by more than this.
    """

    retention_check_interval_ms: int = 300_000
    recovery_checkpoint_interval_ms: int = 60_000
    high_watermark_checkpoint_interval_ms: int = 5_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_check_interval_ms: int = 600_000
    write_back_bytes: int = 64 * 1024 * 1024
    write_back_interval_ms: int = 1000
    max_open_files: int = 4096
    max_unsynced_files: int = 8192
    space_check_interval_ms: int = 10_000
    usage_warn_ratio: float = 0.9
    allow_missing_directories: bool = False
    stray_retention_ms: int = 604_800_000
    max_clock_step_ms: int = 3_600_000


@frozen
class CleanerSettings:
    """
    Kafka's ``log.cleaner.*`` keys of the broker.

    :ivar enable: ``log.cleaner.enable``.
    :ivar backoff_ms: ``log.cleaner.backoff.ms``.
    :ivar threads: ``log.cleaner.threads``: logs cleaned at a time.
    :ivar dedupe_buffer_size: ``log.cleaner.dedupe.buffer.size``, in bytes, shared by all threads.
    :ivar max_bytes_per_second: ``log.cleaner.io.max.bytes.per.second``.
    """

    enable: bool = True
    backoff_ms: int = 15_000
    threads: int = 1
    dedupe_buffer_size: int = 128 * 1024 * 1024
    max_bytes_per_second: float = float("inf")


@frozen
class ScrubSettings:
    """
    The ``log.scrub.*`` keys of the broker.

    :ivar interval_ms: from the end of one round to the beginning of the next; negative: no rounds.
    :ivar max_bytes_per_second: of a round.
    """

    interval_ms: int = 604_800_000
    max_bytes_per_second: float = 4 * 1024 * 1024
