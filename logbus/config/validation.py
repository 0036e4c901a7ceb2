"""
Validates combinations of configuration values, before a broker starts or a change is stored.

A check returns errors, which prevent the start or the change, and warnings about doubtful combinations.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol, TypeVar

from attrs import field, frozen

from logbus.config import keys
from logbus.config.config_key import ConfigKey
from logbus.config.group_config import BOUNDS, TIMEOUTS
from logbus.config.topic_config import TopicConfig
from logbus.errors import ConfigError

T = TypeVar("T")


class Values(Protocol):
    """Returns the effective value of a key."""

    def __call__(self, key: ConfigKey[T], /) -> T: ...


@frozen
class Findings:
    """Errors and warnings about a configuration: sentences that name the keys and values."""

    errors: list[str] = field(factory=list)
    warnings: list[str] = field(factory=list)

    def must(self, holds: bool, otherwise: str) -> None:
        """Add an error unless the condition holds."""
        if not holds:
            self.errors.append(otherwise)

    def ought(self, holds: bool, otherwise: str) -> None:
        """Add a warning unless the condition holds."""
        if not holds:
            self.warnings.append(otherwise)

    def raise_errors(self) -> None:
        """
        Raise the errors, if there are any.

        :raises ConfigError: names all errors.
        """
        if self.errors:
            raise ConfigError("; ".join(self.errors))


class _Reader:
    """Formats keys and values for the sentences."""

    def __init__(self, get: Values) -> None:
        self.get = get

    def text(self, key: ConfigKey[T]) -> str:
        return f"{key.name}={key.text(self.get(key))}"

    def in_order(self, findings: Findings, *ascending: ConfigKey[int]) -> None:
        for low, high in pairwise(ascending):
            findings.must(self.get(low) <= self.get(high), f"{self.text(low)} must not exceed {self.text(high)}")


def check_broker(get: Values) -> Findings:
    """
    Check a broker's resolved values.

    :param get: returns the effective value of a key.
    """
    findings = Findings()
    values = _Reader(get)
    _check_listeners(values, findings)
    values.in_order(findings, keys.GROUP_MIN_SESSION_TIMEOUT_MS, keys.GROUP_MAX_SESSION_TIMEOUT_MS)
    for key, (low, high) in BOUNDS.items():
        values.in_order(findings, *(each for each in (low, key, high) if each is not None))
    for session, heartbeat in TIMEOUTS:
        values.in_order(findings, heartbeat, session)
    values.in_order(findings, keys.REPLICA_FETCH_WAIT_MAX_MS, keys.REPLICA_SOCKET_TIMEOUT_MS)
    values.in_order(findings, keys.REPLICA_FETCH_WAIT_MAX_MS, keys.REPLICA_LAG_TIME_MAX_MS)
    queued = values.get(keys.QUEUED_MAX_REQUEST_BYTES)
    findings.must(
        queued <= 0 or queued >= values.get(keys.SOCKET_REQUEST_MAX_BYTES),
        f"{values.text(keys.QUEUED_MAX_REQUEST_BYTES)} must not be less than "
        f"{values.text(keys.SOCKET_REQUEST_MAX_BYTES)}: the longest request would never fit",
    )
    threads = values.get(keys.LOG_CLEANER_THREADS)
    findings.must(
        values.get(keys.LOG_CLEANER_DEDUPE_BUFFER_SIZE) // threads >= 1024 * 1024,
        f"{values.text(keys.LOG_CLEANER_DEDUPE_BUFFER_SIZE)} is less than 1048576 bytes for each of "
        f"{values.text(keys.LOG_CLEANER_THREADS)}",
    )
    findings.must(
        not values.get(keys.REMOTE_LOG_STORAGE_SYSTEM_ENABLE) or bool(values.get(keys.REMOTE_LOG_STORAGE_URI)),
        "remote.log.storage.system.enable=true needs remote.log.storage.uri, such as s3://bucket/logs",
    )
    findings.ought(
        values.get(keys.MESSAGE_MAX_BYTES) < values.get(keys.SOCKET_REQUEST_MAX_BYTES),
        f"{values.text(keys.MESSAGE_MAX_BYTES)} is never reached: {values.text(keys.SOCKET_REQUEST_MAX_BYTES)} "
        "refuses the request first",
    )
    findings.ought(
        values.get(keys.MIN_INSYNC_REPLICAS) <= values.get(keys.DEFAULT_REPLICATION_FACTOR),
        f"{values.text(keys.MIN_INSYNC_REPLICAS)} exceeds {values.text(keys.DEFAULT_REPLICATION_FACTOR)}: topics "
        "created without a number have fewer replicas, and are held to that many",
    )
    findings.ought(
        values.get(keys.TRANSACTION_STATE_LOG_MIN_ISR) <= values.get(keys.TRANSACTION_STATE_LOG_REPLICATION_FACTOR),
        f"{values.text(keys.TRANSACTION_STATE_LOG_MIN_ISR)} exceeds "
        f"{values.text(keys.TRANSACTION_STATE_LOG_REPLICATION_FACTOR)} and is held to it",
    )
    findings.ought(
        values.get(keys.SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR)
        <= values.get(keys.SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR),
        f"{values.text(keys.SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR)} exceeds "
        f"{values.text(keys.SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR)} and is held to it",
    )
    return findings


def check_broker_change(before: Values, after: Values) -> Findings:
    """Check a change of a running broker's values."""
    findings = Findings()
    old, new = before(keys.LOG_CLEANER_THREADS), after(keys.LOG_CLEANER_THREADS)
    # As in Kafka: a slip of a key does not take all of the machine.
    findings.must(
        old // 2 <= new <= old * 2,
        f"log.cleaner.threads={new} must be between a half of what it is now and the double: {max(1, old // 2)} to "
        f"{old * 2}",
    )
    return findings


def _check_listeners(values: _Reader, findings: Findings) -> None:
    listeners = values.get(keys.LISTENERS)
    names = {listener.name for listener in listeners}
    protocols = {name.upper(): protocol for name, protocol in values.get(keys.LISTENER_SECURITY_PROTOCOL_MAP).items()}
    for name in sorted(names - set(protocols)):
        findings.must(False, f"listeners: {name} is missing in listener.security.protocol.map")
    taken: set[tuple[str, int]] = set()
    for listener in listeners:
        address = (listener.host, listener.port)
        findings.must(not listener.port or address not in taken, f"listeners: {listener} uses a port a second time")
        taken.add(address)
    for listener in values.get(keys.ADVERTISED_LISTENERS):
        findings.must(
            listener.name in names, f"advertised.listeners: {listener.name} is not one of listeners: {sorted(names)}"
        )
        findings.must(
            listener.host not in ("0.0.0.0", "::") or listener in listeners,
            f"advertised.listeners: {listener} is no address that a client could connect to",
        )


def check_topic(config: TopicConfig) -> Findings:
    """Check a topic's values, or the brokers' defaults for topics."""
    findings = Findings()
    _check_remote(config, findings)
    findings.must(
        config.min_compaction_lag_ms <= config.max_compaction_lag_ms,
        f"min.compaction.lag.ms={config.min_compaction_lag_ms} must not exceed "
        f"max.compaction.lag.ms={config.max_compaction_lag_ms}",
    )
    findings.ought(
        config.max_message_bytes <= config.segment_bytes,
        f"max.message.bytes={config.max_message_bytes} exceeds segment.bytes={config.segment_bytes}: larger batches "
        "are refused",
    )
    findings.ought(
        config.segment_jitter_ms <= config.segment_ms,
        f"segment.jitter.ms={config.segment_jitter_ms} exceeds segment.ms={config.segment_ms}: segments may roll at "
        "every append",
    )
    return findings


def _check_remote(config: TopicConfig, findings: Findings) -> None:
    """As Kafka's ``LogConfig.validateRemoteStorage...``."""
    if not config.remote_storage_enable:
        return
    findings.must(
        not config.compacted,
        "remote.storage.enable=true is not for compacted topics: cleanup.policy="
        f"{','.join(sorted(config.cleanup_policy))}; accepted: delete",
    )
    for name, local, whole in (
        ("retention.ms", config.local_retention_ms, config.retention_ms),
        ("retention.bytes", config.local_retention_bytes, config.retention_bytes),
    ):
        if whole != -1:
            findings.must(
                local != -1,
                f"local.{name}=-1 (no limit) must not exceed {name}={whole}; -2 stands for {name}",
            )
            findings.must(local <= whole, f"local.{name}={local} must not exceed {name}={whole}")


def check_remote_change(before: TopicConfig, after: TopicConfig, *, is_system_enabled: bool) -> Findings:
    """
    Check a change of a topic's values that concern remote storage.

    :param is_system_enabled: ``remote.log.storage.system.enable`` of the brokers.
    """
    findings = Findings()
    turned_on = after.remote_storage_enable and not before.remote_storage_enable
    findings.must(
        is_system_enabled or not turned_on,
        "remote.storage.enable=true needs brokers with remote.log.storage.system.enable=true",
    )
    findings.must(
        after.remote_storage_enable or not before.remote_storage_enable or after.remote_log_delete_on_disable,
        "remote.storage.enable=false deletes the records that are only in remote storage: set "
        "remote.log.delete.on.disable=true with it, or set remote.log.copy.disable=true to keep them",
    )
    return findings
