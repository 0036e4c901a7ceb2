"""A connection of a Kafka 0.7 client: takes frames, and answers the requests in them one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.coroutines import sleep
from logbus.errors import ApiError, ProtocolError
from logbus.ilogbus import IPluginClient
from logbus.kafka07.requests import Produce, Request, decode_in_steps
from logbus.wire.frame_buffer import FrameBuffer

if TYPE_CHECKING:
    from logbus.kafka07.factory import KafkaSevenFactory

MAX_FRAME = 8 * 1024 * 1024
"""Bytes of a request; producers of 0.7 send a set of at most 1,000,000 bytes a message."""

FRAME_SECONDS = 60.0
"""In which a request must be complete once it has begun."""

READ_SECONDS = 120.0
"""In which a client must have taken some of its responses."""


@implementer(IPushProducer)
class KafkaSevenProtocol(Protocol):
    """
    One connection.

    Requests have no numbers, so responses are in their order; the next request is served when the last one was, and
    its response is on the way. Until then nothing more is read: TCP slows the client down.

    :ivar serving: fires when the request that was read is served; None: there is none.
    """

    transport: Any
    _log = Logger()

    def __init__(self, factory: KafkaSevenFactory, client: IPluginClient, peer: str) -> None:
        self.serving: Deferred[None] | None = None
        self._factory = factory
        self._client = client
        self._peer = peer
        self._buffer = FrameBuffer(MAX_FRAME)
        self._timer: IDelayedCall | None = None
        self._muted: IDelayedCall | None = None
        self._unsent = self._closing = False
        self.held = 0
        self.unsent = 0

    def connectionMade(self) -> None:
        self.transport.registerProducer(self, True)

    def dataReceived(self, data: bytes) -> None:
        self._buffer.append(data)
        self._factory.hold(self, self._buffer.capacity)
        if self._closing:
            return
        if self._factory.is_full and self._buffer.partial and self.serving is None:
            self._refuse(f"no memory for a request of {self._buffer.held + self._buffer.missing} bytes")
            return
        self._serve_next()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._closing = True
        self._cancel_timers()
        self._buffer.clear()
        self._factory.closed(self)

    # -- Requests

    def _serve_next(self) -> None:
        """Serve the next request, unless one is being served, or the last response is not on its way."""
        while self.serving is None and self._muted is None and not self._unsent and not self._closing:
            try:
                frame = self._buffer.next_frame()
                if frame is None:
                    break
            except ProtocolError as error:
                self._refuse(str(error))
                return
            self._stop_timer()
            # More may be received while it is served.
            self.serving = Deferred.fromCoroutine(self._serve(bytes(frame)))
            # Behind the assignment: it may be over already.
            self.serving.addBoth(self._served)
        self._update_reading()

    async def _serve(self, frame: bytes) -> None:
        try:
            request = await self._decode(frame)
            answer = await self._factory.service.answer(self._client, request, self._factory.room)
        except CancelledError:
            raise
        except (ProtocolError, ApiError) as error:
            self._refuse(str(error))
            return
        except Exception:
            self._log.failure("a request of Kafka 0.7 from {peer} failed; closing", peer=self._peer)
            self.transport.abortConnection()
            return
        if self._closing:
            return
        if answer is not None:
            self.transport.write(answer)
            self.unsent = len(answer) if self._unsent else 0
        if isinstance(request, Produce):
            seconds = self._client.produced(len(frame))
        else:
            seconds = self._client.fetched(len(answer or b""))
        if seconds:
            self._muted = self._factory.clock.callLater(seconds, self._unmute)

    async def _decode(self, frame: bytes) -> Request:
        steps = decode_in_steps(frame)
        try:
            while True:
                next(steps)
                await sleep(self._factory.clock, 0)
        except StopIteration as done:
            request: Request = done.value
            return request

    def _served(self, result: object) -> None:
        self.serving = None
        if isinstance(result, Failure):
            result.trap(CancelledError)
        elif not self._closing:
            # In a turn of its own, or a client that sends many requests at once would keep others waiting.
            self._factory.clock.callLater(0, self._serve_next)

    def _unmute(self) -> None:
        self._muted = None
        self._serve_next()

    def _update_reading(self) -> None:
        if self._closing:
            return
        if self.serving is not None or self._muted is not None or self._unsent:
            self.transport.pauseProducing()
            return
        self._factory.hold(self, self._buffer.capacity - self._buffer.shrink())
        if self._buffer.partial and self._timer is None:
            self._timer = self._factory.clock.callLater(FRAME_SECONDS, self._late)
        self.transport.resumeProducing()

    # -- What the transport calls when it has more to send than the client takes

    def pauseProducing(self) -> None:
        self._unsent = True
        self._stop_timer()
        self._timer = self._factory.clock.callLater(READ_SECONDS, self._not_read)

    def resumeProducing(self) -> None:
        if self._unsent:
            self._unsent = False
            self.unsent = 0
            self._stop_timer()
            self._serve_next()

    def stopProducing(self) -> None:
        pass

    # -- Ends

    def _late(self) -> None:
        self._timer = None
        self._refuse(f"a request is not complete after {FRAME_SECONDS:g} s")

    def _not_read(self) -> None:
        self._timer = None
        self._refuse(f"responses were not read for {READ_SECONDS:g} s")
        self.transport.abortConnection()

    def _refuse(self, problem: str) -> None:
        """Log why the connection is closed, and close it: a client of 0.7 learns of errors in no other way."""
        if not self._closing:
            self._factory.warn(self._client.host, self._peer, problem)
            self.close()

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _cancel_timers(self) -> None:
        self._stop_timer()
        muted, self._muted = self._muted, None
        if muted is not None and muted.active():
            muted.cancel()

    def close(self) -> None:
        """Close the connection when what was written is sent."""
        self._closing = True
        self._cancel_timers()
        self.transport.unregisterProducer()
        self.transport.loseConnection()
