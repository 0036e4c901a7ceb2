"""The configuration of a topic: an immutable value, replaced when a setting changes (Kafka: LogConfig)."""

from __future__ import annotations

from attrs import evolve, frozen


@frozen
class TopicConfig:
    """
    The part of a topic's configuration that its logs use.

    Names are Kafka's topic keys with dots as underscores; units are in the names; −1 means "no limit", and −2 of local
    retention the topic's whole retention.
    """

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_before_ack: bool = True
    flush_messages: int = 2**63 - 1
    flush_ms: int = 2**63 - 1
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = 2**63 - 1
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = 2**63 - 1
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    @property
    def compacted(self) -> bool:
        """Whether the cleanup policy includes ``compact``."""
        return "compact" in self.cleanup_policy

    @property
    def has_local_retention(self) -> bool:
        """Whether segments that were copied to remote storage may go earlier than their records."""
        return self.remote_storage_enable and not self.remote_log_copy_disable

    def local(self) -> TopicConfig:
        """The configuration with the retention of local segments in place of the topic's."""
        if not self.has_local_retention:
            return self
        return evolve(
            self,
            retention_ms=self.retention_ms if self.local_retention_ms == -2 else self.local_retention_ms,
            retention_bytes=self.retention_bytes if self.local_retention_bytes == -2 else self.local_retention_bytes,
        )
