"""Sends the responses of one connection, several small ones together."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall

from logbus.net.itransport import IFrameTransport
from logbus.net.request_times import PhaseTimes
from logbus.net.shared_resources import SharedResources
from logbus.records.file_slice import Parts

_SEND_NOW = 1 << 16


@define(eq=False)
class ResponseSender:
    """
    Collects responses until they are sent together, and counts what the peer has not taken.

    :param too_slow: called when the peer has left too many bytes; ask :attr:`caught_up` again after :meth:`sent`.
    :ivar parts: responses to be sent by the next :meth:`flush`.
    :ivar transport: set when the connection is made.
    """

    _shared: SharedResources
    _too_slow: Callable[[], None]
    transport: IFrameTransport = field(init=False)
    parts: Parts = field(factory=list, init=False)
    # Bytes in ``parts`` that were added while requests are served.
    _size: int = field(default=0, init=False)
    # This connection's part of what is unsent.
    _unsent: int = field(default=0, init=False)
    # Since when responses are unsent, and which API's.
    _sending: tuple[float, PhaseTimes] | None = field(default=None, init=False)
    _flush_call: IDelayedCall | None = field(default=None, init=False)
    _lost: bool = field(default=False, init=False)

    def add(self, parts: Parts) -> None:
        """Add a response. Small ones are sent together by :meth:`flush`; large ones, and slices of files, at once."""
        self.parts += parts
        self._size += len(parts[0]) if len(parts) == 1 else _SEND_NOW
        if self._size >= _SEND_NOW:
            self.flush()

    def add_small(self, part: bytes) -> None:
        """Add responses to be sent by :meth:`flush` in any case."""
        self.parts.append(part)
        self._size += len(part)

    def flush(self) -> None:
        """Send all that was added."""
        parts, self.parts = self.parts, []
        self._size = 0
        transport = self.transport
        transport.send(parts)
        unsent = transport.unsent
        if unsent or self._unsent:
            self._count(unsent)
            if unsent and self._sending is None:
                times = self._shared.times
                self._sending = times.seconds(), times.last.send
            if unsent > self._allowed:
                self._too_slow()

    def flush_later(self) -> None:
        """Send in a later turn what was added until then."""
        if self._flush_call is None:
            self._flush_call = self._shared.clock.callLater(0, self._flush_now)

    def sent(self) -> None:
        """The transport has fewer bytes unsent than before."""
        unsent = self.transport.unsent
        self._count(unsent)
        if not unsent and self._sending is not None:
            (since, phase), self._sending = self._sending, None
            phase.observe(self._shared.times.seconds() - since, 1)

    @property
    def caught_up(self) -> bool:
        """Whether the peer has taken enough to get more responses."""
        return self.transport.unsent <= self._allowed // 2

    def connection_lost(self) -> None:
        """Drop everything."""
        self._count(0)
        self._lost = True
        self.parts = []
        if self._flush_call is not None:
            self._flush_call.cancel()
            self._flush_call = None

    @property
    def _allowed(self) -> int:
        """Bytes that the peer may leave."""
        return self._shared.unsent.allowed(self._shared.limits.max_unsent)

    def _count(self, unsent: int) -> None:
        if not self._lost:
            self._shared.unsent.total += unsent - self._unsent
            self._unsent = unsent

    def _flush_now(self) -> None:
        self._flush_call = None
        if self.parts:
            self.flush()
