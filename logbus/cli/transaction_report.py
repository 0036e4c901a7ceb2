"""Transactions and producers as JSON, and as rows of tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from logbus.cli.hanging_transactions import OpenTransaction
from logbus.cli.output import by_topic, partition_list
from logbus.client.admin.transaction_results import ActiveProducer, TransactionDescription

DESCRIPTION_HEAD = (
    *("transactional id", "state", "producer", "epoch", "timeout ms"),
    *("started", "seconds", "coordinator", "partitions"),
)
PRODUCER_HEAD = ("producer", "epoch", "coordinator epoch", "last sequence", "last write", "open since")
HANGING_HEAD = (
    *("topic", "partition", "producer", "epoch", "coordinator epoch"),
    *("start offset", "last write", "minutes"),
)


def description_json(found: TransactionDescription, now_ms: int) -> dict[str, Any]:
    """Return a transactional id as JSON values."""
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "started_ms": found.started_ms,
        "duration_ms": _duration_ms(found, now_ms),
        "partitions": by_topic(found.partitions),
        "coordinator": {"id": found.coordinator.node_id, "address": str(found.coordinator)},
    }


def description_row(found: TransactionDescription, now_ms: int) -> tuple[object, ...]:
    """Return a transactional id as a row."""
    duration_ms = _duration_ms(found, now_ms)
    return (
        found.transactional_id,
        found.state,
        found.producer_id,
        found.producer_epoch,
        found.timeout_ms,
        date(found.started_ms),
        None if duration_ms is None else duration_ms // 1000,
        found.coordinator,
        partition_list(found.partitions),
    )


def producer_json(producer: ActiveProducer) -> dict[str, Any]:
    """Return a producer as JSON values."""
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": _none_if_unknown(producer.coordinator_epoch),
        "last_sequence": _none_if_unknown(producer.last_sequence),
        "last_timestamp": _none_if_unknown(producer.last_timestamp),
        "start_offset": producer.open_since,
    }


def producer_row(producer: ActiveProducer) -> tuple[object, ...]:
    """Return a producer as a row."""
    return (
        producer.producer_id,
        producer.producer_epoch,
        _none_if_unknown(producer.coordinator_epoch),
        _none_if_unknown(producer.last_sequence),
        date(producer.last_timestamp),
        producer.open_since,
    )


def hanging_json(found: OpenTransaction) -> dict[str, Any]:
    """Return a hanging transaction as JSON values."""
    return {"topic": found.partition.topic, "partition": found.partition.partition, **producer_json(found.producer)}


def hanging_row(found: OpenTransaction, now_ms: int) -> tuple[object, ...]:
    """Return a hanging transaction as a row."""
    producer = found.producer
    return (
        *found.partition,
        producer.producer_id,
        producer.producer_epoch,
        _none_if_unknown(producer.coordinator_epoch),
        found.since,
        date(producer.last_timestamp),
        max(now_ms - producer.last_timestamp, 0) // 60_000,
    )


def _duration_ms(found: TransactionDescription, now_ms: int) -> int | None:
    return None if found.started_ms is None else max(now_ms - found.started_ms, 0)


def _none_if_unknown(number: int) -> int | None:
    """Return None for −1, which means unknown."""
    return None if number < 0 else number


def date(at_ms: int | None) -> str | None:
    """Format a time; None if there is none, or one out of range."""
    if at_ms is None or at_ms < 0:
        return None
    try:
        return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(at_ms)
