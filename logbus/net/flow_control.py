"""Decides when a connection's requests are served, and when more of its bytes are received (backpressure)."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall

from logbus.net.itransport import IFrameTransport
from logbus.net.shared_resources import SharedResources
from logbus.wire.frame_buffer import FrameBuffer

# Reasons why a connection serves no further request at the moment; any number of these.
BLOCKED = 1  # an earlier request must be answered first
PENDING = 2  # too many requests wait for their responses
UNSENT = 4  # the peer does not take its responses
MEMORY = 8  # the next frame must wait for memory
LATER = 16  # other connections get their turn
CLOSING = 32
THROTTLED = 64  # the client is over its quota (KIP-219)
PREPARING = 128  # a request waits before it is served; its memory is read meanwhile
GIVING_WAY = 256  # small requests of others come before a large one
IN_THREAD = 512  # a thread answers its fetches

_MAX_READ_AHEAD = 1 << 16


@define(eq=False)
class FlowControl:
    """
    The reasons for which one connection waits.

    :param serve: serves the frames that were received.
    :ivar stops: the reasons, as bits; 0: requests are served.
    :ivar serving: whether requests are being served right now.
    :ivar transport: set when the connection is made.
    """

    _frames: FrameBuffer
    _shared: SharedResources
    _serve: Callable[[], None]
    stops: int = field(default=0, init=False)
    serving: bool = field(default=False, init=False)
    transport: IFrameTransport = field(init=False)
    _later: IDelayedCall | None = field(default=None, init=False)
    _mute: IDelayedCall | None = field(default=None, init=False)
    _lost: bool = field(default=False, init=False)

    @property
    def may_read(self) -> bool:
        """
        Whether more may be received. Reading on while a response is not ready detects the loss of a connection; but the
        bytes waiting in memory are bounded, whatever the transport.
        """
        stops = self.stops
        return not stops or (not stops & ~(BLOCKED | LATER) and self._frames.held <= _MAX_READ_AHEAD)

    def stop_reading(self, reason: int) -> None:
        """Serve and receive nothing while there is this reason."""
        self.stops |= reason
        if not self._lost:
            self._shared.metrics.throttled_reads += 1
            self.transport.pause_reading()

    def stop_serving(self, reason: int) -> None:
        """
        Serve nothing while there is this reason. What comes is still received once, as most peers send nothing before
        they have their response: then the reactor need not be told to stop and to go on.
        """
        self.stops |= reason
        self._shared.metrics.throttled_reads += 1

    def resume(self, reason: int) -> None:
        """Remove a reason; continue if it was the last one."""
        self.stops &= ~reason
        if not self.stops:
            # Before more is received: a peer that sends faster than it is served must not fill our memory.
            if not self.serving:
                self._serve()
            self.read_on()

    def resume_later(self, reason: int) -> None:
        """Remove a reason. The caller may be in the middle of something: continue in a turn of its own."""
        self.stops &= ~reason
        if not self.stops:
            if self._frames.held and not self.serving:
                self.end_turn()
            self.read_on()

    def read_on(self) -> None:
        """Receive again, if nothing is against it."""
        if self.may_read:
            self.transport.resume_reading()

    def end_turn(self) -> None:
        """Let other connections have their turn before the next request is served."""
        self.stops |= LATER
        self._later = self._shared.clock.callLater(0, self._begin_turn)

    def leave_to_thread(self) -> None:
        """A thread serves the next requests; nothing is received here meanwhile."""
        self.stops |= IN_THREAD
        self.transport.pause_reading()

    def mute(self, seconds: float) -> None:
        """Serve and receive nothing for so long, or longer if it is muted already (Kafka: ThrottledChannel)."""
        if self._lost:
            return
        if self._mute is not None:
            until = self._shared.clock.seconds() + seconds
            if until > self._mute.getTime():
                self._mute.reset(seconds)
            return
        self.stops |= THROTTLED
        self._mute = self._shared.clock.callLater(seconds, self._unmute)
        self.transport.pause_reading()

    def gives_way(self) -> bool:
        """Whether small requests of others come before the large one here: then it waits for its turn."""
        if not self._shared.large_requests.must_wait(self._take_turn):
            return False
        self.stops |= GIVING_WAY
        self.transport.pause_reading()
        return True

    def connection_lost(self) -> None:
        """Serve nothing any more."""
        self._lost = True
        self._shared.large_requests.withdraw(self._take_turn)
        self.stops |= CLOSING
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._mute is not None:
            self._mute.cancel()
            self._mute = None

    def _unmute(self) -> None:
        self._mute = None
        self.resume(THROTTLED)

    def _take_turn(self) -> None:
        self.resume(GIVING_WAY)

    def _begin_turn(self) -> None:
        self._later = None
        self.resume(LATER)
