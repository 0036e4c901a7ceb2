"""A producer's records, their metadata once written, and errors of sending."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from logbus.errors import LogbusError
from logbus.records.batch import Headers


class RecordMetadata(NamedTuple):
    """
    The position of a written record.

    :ivar partition: −1 if the record had none yet when it failed.
    :ivar offset: −1 if it is not known: with acks=0, or after a failure.
    :ivar timestamp: milliseconds since 1970.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class DeliveryHandle(Protocol):
    """
    Is told the outcome of a record: a Deferred, or a future with these methods.

    :ivar called: whether it was told, or does not want to know any more.
    """

    @property
    def called(self) -> bool: ...

    def callback(self, result: RecordMetadata, /) -> object:
        """The record was written."""

    def errback(self, error: Exception, /) -> object:
        """It was not, or that is not known."""


class DeliveryFailed(LogbusError):
    """
    A record could not be written within the delivery timeout. It may be in the log, unless the message says that it was
    never sent.
    """


class BufferFull(LogbusError):
    """
    Too many records wait for room in the buffer: the caller awaits neither their Deferreds nor
    :meth:`~logbus.client.Producer.room`.
    """


class ProducerRecord(NamedTuple):
    """
    A record to send, as interceptors see it.

    :ivar value: as the application gave it; after serialization, bytes or None. Likewise ``key``.
    :ivar partition: None: the partitioner chooses.
    :ivar timestamp: milliseconds since 1970.
    """

    topic: str
    value: Any
    key: Any = None
    partition: int | None = None
    timestamp: int = -1
    headers: Headers = ()
