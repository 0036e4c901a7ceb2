"""Bodies of HTTP requests and responses; the size of a response is limited."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IConsumer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.iweb import IBodyProducer
from zope.interface import implementer

from logbus.errors import LogbusError


class BodyTooLarge(LogbusError):
    """A response exceeds the limit."""


@implementer(IBodyProducer)
class BytesBody:
    """A small request body in memory, written at once."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.length = len(data)

    def startProducing(self, consumer: IConsumer) -> Deferred[None]:
        """Write it."""
        consumer.write(self._data)
        return succeed(None)

    def pauseProducing(self) -> None:
        """Nothing is left to be written."""

    def resumeProducing(self) -> None:
        """Nothing is left to be written."""

    def stopProducing(self) -> None:
        """Nothing is left to be written."""


def bounded_body(response: Any, limit: int) -> Deferred[bytes]:
    """
    Read a response's body; cancelling closes the connection.

    :param response: twisted.web's IResponse.
    :param limit: bytes.
    :raise BodyTooLarge: (in the Deferred) the body is longer; the connection is closed.
    """
    body = _Body(limit)
    response.deliverBody(body)
    return body.read


class _Body(Protocol):
    def __init__(self, limit: int) -> None:
        self.read: Deferred[bytes] = Deferred(lambda _: self._hang_up())
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def dataReceived(self, data: bytes) -> None:
        self._size += len(data)
        if self._size <= self._limit:
            self._pieces.append(data)
        elif not self.read.called:
            self._pieces.clear()
            self.read.errback(BodyTooLarge(f"an answer of more than {self._limit} bytes"))
            self._hang_up()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.read.called:
            return
        if reason.check(ResponseDone, PotentialDataLoss):
            self.read.callback(b"".join(self._pieces))
        else:
            self.read.errback(reason)

    def _hang_up(self) -> None:
        abort = getattr(self.transport, "abortConnection", None)
        if abort is not None:
            abort()
