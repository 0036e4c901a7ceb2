"""Records on their way out, where they were written, and why they were not."""

from __future__ import annotations

from typing import Any, NamedTuple

from logbus.errors import LogbusError
from logbus.records.batch import Headers


class RecordMetadata(NamedTuple):
    """
    Where a record was written.

    :ivar partition: −1 if the record had none yet when it failed.
    :ivar offset: −1 if it is not known: nobody waited for the answer (acks=0), or it failed.
    :ivar timestamp: milliseconds since 1970.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class DeliveryFailed(LogbusError):
    """A record could not be written in the time it was given. It may be in the log, unless the message says that it was
    never sent."""


class BufferFull(LogbusError):
    """
    More records wait for room than the buffer holds besides: whoever sends them waits neither for their Deferreds nor
    for room.
    """


class ProducerRecord(NamedTuple):
    """
    A record on its way out, as a producer gives it to its interceptors.

    :ivar value: as the application gave it; once serializers have seen it, bytes or None. So is ``key``.
    :ivar partition: None: by the key, or any.
    :ivar timestamp: milliseconds since 1970.
    """

    topic: str
    value: Any
    key: Any = None
    partition: int | None = None
    timestamp: int = -1
    headers: Headers = ()
