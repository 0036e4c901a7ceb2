"""
Sends responses that consist of bytes and slices of files through a transport without a socket to write to directly
(TLS, UNIX sockets, memory): slices are read piece by piece, as the transport asks for more.

It does not wait for a disk: parts of a slice that are not in the page cache are loaded first; see
:mod:`logbus.net.cold_reads`.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Any, Protocol

from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from zope.interface import implementer

from logbus.errors import StorageError
from logbus.net.cold_reads import ColdReadGate
from logbus.net.itransport import IFrameTransport
from logbus.net.metrics import NetMetrics
from logbus.net.prepared_fetches import PreparedFetches
from logbus.net.sendfile import TURN, SliceTruncated, truncated
from logbus.records.file_slice import FileSlice, Part

_PIECE = 1 << 16
"""Bytes of small parts that are joined for one write; a write of a large part is of up to twice as many."""


class StreamProtocol(Protocol):
    """The methods of a protocol that :class:`StreamTransport` calls."""

    def sent(self) -> None:
        """Less is unsent than before."""


@implementer(IFrameTransport, IPushProducer)
class StreamTransport:
    """
    Sends through any transport that is an ``IConsumer``, as its push producer.

    A pull producer would do as well, but TLS drives those with the global reactor's cooperator.
    """

    _log = Logger()
    receives_in_place = False
    may_answer_fetches = False

    def __init__(self, transport: Any, protocol: StreamProtocol, metrics: NetMetrics) -> None:
        self.unsent = 0
        self._transport = transport
        self._protocol = protocol
        self._metrics = metrics
        self._parts: deque[Part] = deque()
        self._gate = ColdReadGate(self._loaded, metrics)
        self._paused = False
        self._reading = True
        self._pumping = False
        self._closing = False
        self._closed = False
        transport.registerProducer(self, True)

    def send(self, parts: list[Part]) -> None:
        """Send ``parts`` after everything before them; does nothing on a closed connection."""
        if self._closed:
            return
        for part in parts:
            if size := len(part):
                self.unsent += size
                if isinstance(part, FileSlice) and part.data is not None:
                    part = memoryview(part.data)
                self._parts.append(part)
        self._pump()

    def pauseProducing(self) -> None:
        """The transport's buffer is full."""
        self._paused = True

    def resumeProducing(self) -> None:
        """The transport's buffer is empty."""
        self._paused = False
        if self.unsent:
            self._pump()
            self._protocol.sent()

    def stopProducing(self) -> None:
        """The connection is gone."""
        self._parts.clear()
        self._gate.clear()
        self.unsent = 0
        self._paused = True

    def set_send_buffer(self, size: int) -> None:
        """Ignored: the underlying transport has a buffer of its own."""

    def pause_reading(self) -> None:
        """Stop receiving for now."""
        if self._reading and not self._closed:
            self._reading = False
            self._transport.pauseProducing()

    def resume_reading(self) -> None:
        """Receive again."""
        if not self._reading and not self._closing:
            self._reading = True
            self._transport.resumeProducing()

    def answer_fetches(self, prepared: PreparedFetches) -> bool:
        """Refuse: only the transport knows what is sent over it."""
        return False

    def recall_fetches(self) -> None:
        """Do nothing: no thread answers."""

    def loseConnection(self) -> None:
        """Close when everything is sent."""
        if not self._closing:
            self._closing = True
            self._pump()

    def abortConnection(self) -> None:
        """Close now."""
        self._closing = self._closed = True
        self._parts.clear()
        self._gate.clear()
        self.unsent = 0
        self._transport.abortConnection()

    def _loaded(self) -> None:
        self._pump()
        self._protocol.sent()

    def _pump(self) -> None:
        # A transport may call back from within its write.
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._parts and not self._paused and (data := self._next_piece()):
                self.unsent -= len(data)
                self._metrics.bytes_out += len(data)
                self._transport.write(data)
        except (OSError, EOFError, StorageError) as e:
            self._log.error("cannot send to {peer}: {error}", peer=self._transport.getPeer(), error=e)
            self.abortConnection()
        finally:
            self._pumping = False
        if self._closing and not self._parts and not self._closed:
            self._closed = True
            self._transport.unregisterProducer()
            if not self._reading:
                # TLS closes only when the peer has closed, too.
                self._reading = True
                self._transport.resumeProducing()
            self._transport.loseConnection()

    def _next_piece(self) -> bytes:
        """The next bytes to send; nothing if they must be loaded first."""
        part = self._parts[0]
        if not isinstance(part, FileSlice):
            self._parts.popleft()
            if len(part) > 2 * _PIECE:
                # The transport keeps what it is given, and pauses its producer only afterwards.
                rest = memoryview(part)
                self._parts.appendleft(rest[2 * _PIECE :])
                return bytes(rest[: 2 * _PIECE])
            small = [bytes(part)]
            size = len(part)
            while self._parts and size < _PIECE and not isinstance(part := self._parts[0], FileSlice):
                small.append(bytes(part))
                size += len(part)
                self._parts.popleft()
            return b"".join(small) if len(small) > 1 else small[0]
        allowed = self._gate.allowed(part, min(len(part), TURN))
        if not allowed:
            return b""
        data = os.pread(part.file.fileno(), min(allowed, 2 * _PIECE), part.position)
        if not data:
            raise SliceTruncated(truncated(part))
        if len(data) == len(part):
            self._parts.popleft()
            self._gate.next_part()
        else:
            self._parts[0] = part.narrow(len(data))
        return data
