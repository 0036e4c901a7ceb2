"""Producers that count: InitProducerId (22)."""

from __future__ import annotations

from logbus.wire.schema import Int16, Int32, Int64, String, field, message


@message(22, versions="0-5", flexible="2+")
class InitProducerIdRequest:
    """Get a producer id, or (from version 3) the next epoch of the one the producer has (KIP-360)."""

    transactional_id: String | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = field("3+", default=-1)
    producer_epoch: Int16 = field("3+", default=-1)


@message(22, versions="0-5", flexible="2+")
class InitProducerIdResponse:
    """The answer to :class:`InitProducerIdRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
