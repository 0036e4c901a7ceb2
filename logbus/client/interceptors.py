"""
Interceptors of producers and consumers: hooks to log, trace, count, change or drop records.

.. code-block:: python

    class Stamped(ProducerInterceptor):
        def on_send(self, record):
            return record._replace(headers=(*record.headers, ("host", b"web1")))

    producer = Producer(cluster, interceptors=[Stamped()])

Interceptors are called in the given order, on the reactor, and must not block. If one raises, that is logged with its
name, and the record goes on unchanged: an interceptor's fault never prevents delivery. The application owns its
interceptors and may use them for several clients, which do not close them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen
from twisted.logger import Logger

from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.group_metadata import CommittedOffset
from logbus.client.producer.producer_record import ProducerRecord, RecordMetadata
from logbus.errors import LogbusError
from logbus.model import TopicPartition

__all__ = [
    "ConsumerInterceptor",
    "ConsumerInterceptors",
    "ProducerInterceptor",
    "ProducerInterceptors",
    "ProducerRecord",
    "RecordDropped",
]


class RecordDropped(LogbusError):
    """An interceptor dropped the record; it was not sent."""


class ProducerInterceptor:
    """Hooks for records that are sent (Kafka: ProducerInterceptor). Override the methods of interest."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        """Called before a record is queued; returns the record to send instead, or None to drop it."""
        return record

    def on_queued(self, record: ProducerRecord) -> None:
        """Called after a record was queued, with the record as the interceptors left it."""

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """
        Called when the outcome of a record is known.

        :param metadata: if it failed, the offset is −1, and so is the partition if none was chosen yet.
        :param error: None: it was written.
        """


class ConsumerInterceptor:
    """Hooks for records that are read (Kafka: ConsumerInterceptor). Override the methods of interest."""

    def on_consume(self, records: Sequence[ConsumerRecord[Any, Any]]) -> None:
        """Called before records are delivered to the application."""

    def on_commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Called after offsets were committed."""


@frozen
class ProducerInterceptors:
    """
    Calls a producer's interceptors in order.

    :ivar interceptors: any objects with the methods of :class:`ProducerInterceptor`.
    """

    interceptors: tuple[ProducerInterceptor, ...] = ()

    def __bool__(self) -> bool:
        """False without interceptors, so that calls can be skipped."""
        return bool(self.interceptors)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """
        The record to send.

        :raise RecordDropped: an interceptor dropped it; the message names the interceptor.
        """
        for each in self.interceptors:
            try:
                changed: Any = each.on_send(record)
            except Exception:
                _failed(each, "on_send")
                continue
            if changed is None:
                raise RecordDropped(f"{_name(each)} dropped a record for topic {record.topic!r}")
            if type(changed) is not type(record):
                _log.error(
                    "{interceptor}.on_send returned {type}, not a ProducerRecord; the record goes on as it was",
                    interceptor=_name(each),
                    type=type(changed).__name__,
                )
                continue
            record = changed
        return record

    def on_queued(self, record: ProducerRecord) -> None:
        """A record was queued."""
        for each in self.interceptors:
            _call(each, "on_queued", each.on_queued, record)

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """The outcome of a record is known."""
        for each in self.interceptors:
            _call(each, "on_acknowledgement", each.on_acknowledgement, metadata, error)


@frozen
class ConsumerInterceptors:
    """
    Calls a consumer's interceptors in order.

    :ivar interceptors: any objects with the methods of :class:`ConsumerInterceptor`.
    """

    interceptors: tuple[ConsumerInterceptor, ...] = ()

    def __bool__(self) -> bool:
        """False without interceptors, so that calls can be skipped."""
        return bool(self.interceptors)

    def on_consume(self, records: Sequence[ConsumerRecord[Any, Any]]) -> None:
        """Records are about to be delivered."""
        for each in self.interceptors:
            _call(each, "on_consume", each.on_consume, records)

    def on_commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Offsets were committed."""
        for each in self.interceptors:
            _call(each, "on_commit", each.on_commit, offsets)


_log = Logger()


def _call(interceptor: object, hook: str, function: Callable[..., object], *arguments: object) -> None:
    try:
        function(*arguments)
    except Exception:
        _failed(interceptor, hook)


def _failed(interceptor: object, hook: str) -> None:
    _log.failure("{interceptor}.{hook} failed; delivery goes on", interceptor=_name(interceptor), hook=hook)


def _name(interceptor: object) -> str:
    return str(getattr(interceptor, "name", None) or type(interceptor).__name__)
