"""
Hooks into what producers and consumers do: to log, trace, count, complete or drop records.

.. code-block:: python

    class Stamped(ProducerInterceptor):
        def on_send(self, record):
            return record._replace(headers=(*record.headers, ("host", b"web1")))

    producer = Producer(cluster, interceptors=[Stamped()])

Interceptors are called in the order in which they are given, on the reactor: they must not wait. One that raises is
logged with its name, and the record goes on as it was before: a fault of an interceptor is never one of delivery. An
interceptor belongs to who made it, and may serve several clients; they do not close it.
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
    """What happens to records on their way out. Override what is of interest."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        """Before a record is queued: the record to send instead, or None to drop it."""
        return record

    def on_queued(self, record: ProducerRecord) -> None:
        """After it was queued, as the interceptors left it."""

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """
        The outcome of a record is known.

        :param metadata: of one that failed the offset is −1, and so is the partition if none was chosen yet.
        :param error: None: it is written.
        """


class ConsumerInterceptor:
    """What happens to records on their way in. Override what is of interest."""

    def on_consume(self, records: Sequence[ConsumerRecord[Any, Any]]) -> None:
        """Before records are handed to the application."""

    def on_commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """After offsets were committed."""


@frozen
class ProducerInterceptors:
    """
    A producer's interceptors, called one after another.

    :ivar interceptors: any objects with the methods of :class:`ProducerInterceptor`.
    """

    interceptors: tuple[ProducerInterceptor, ...] = ()

    def __bool__(self) -> bool:
        """False without any: who has none pays nothing."""
        return bool(self.interceptors)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """
        The record to send.

        :raise RecordDropped: there is none; the message names the interceptor.
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
    A consumer's interceptors, called one after another.

    :ivar interceptors: any objects with the methods of :class:`ConsumerInterceptor`.
    """

    interceptors: tuple[ConsumerInterceptor, ...] = ()

    def __bool__(self) -> bool:
        """False without any: who has none pays nothing."""
        return bool(self.interceptors)

    def on_consume(self, records: Sequence[ConsumerRecord[Any, Any]]) -> None:
        """Records are handed to the application."""
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
