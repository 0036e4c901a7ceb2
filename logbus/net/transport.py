"""
The server's TCP transport: receives and parses frames in place, and sends replies directly.

It is cheaper than a plain ``tcp.Server``:

* it receives straight into the connection's frame buffer, where the protocol parses;
* it sends from within the read callback, and asks the reactor for writability only for the bytes that the socket did
  not take (two system calls and a turn of the reactor less for each request);
* it sends slices of files by ``sendfile``.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from twisted.internet import main, tcp
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.errors import StorageError
from logbus.net.itransport import IFrameTransport
from logbus.net.native_fetches import NativeFetches
from logbus.net.native_sends import NativeSends
from logbus.net.prepared_fetches import AnsweredFetches, PreparedFetches
from logbus.net.read_turn import ReadTurn
from logbus.net.response_batch import LARGEST, ResponseBatch
from logbus.net.sendfile import SendQueue, SliceTruncated, small_bytes
from logbus.records.file_slice import Part, Parts
from logbus.wire.frame_buffer import FLOOR

_WIDEST = 1 << 16

_MOST_AT_ONCE = 2 << 20
"""Bytes of a large frame that are received before other connections have their turn."""


@implementer(IFrameTransport)
class ServerTransport(tcp.Server):
    """
    One accepted connection of a factory that provides :class:`logbus.net.itransport.IFrameFactory`.
    """

    _log = Logger()
    receives_in_place = True

    def __init__(self, sock: Any, protocol: Any, client: Any, server: Any, sessionno: int, reactor: Any) -> None:
        self._send_queue = SendQueue(protocol.metrics, self._loaded, self._thread)
        self._reading = True
        turn: ReadTurn | None = getattr(reactor, "turn", None)
        self._batch = ResponseBatch() if turn is None else turn.responses
        self.is_in_batch = False
        # While a thread answers the peer's fetches: its ticket, and the protocol, which may be lost before.
        self._fetching: tuple[int, Any] | None = None
        super().__init__(sock, protocol, client, server, sessionno, reactor)
        # Nagle's algorithm would hold back the last, short segment of a slice until the peer's delayed
        # acknowledgement, 40 ms later.
        self.setTcpNoDelay(True)

    def set_send_buffer(self, size: int) -> None:
        """
        Limit the bytes that the kernel buffers for the peer to about ``size``.

        By default it takes whole megabytes at once, and reader and writer then hinder each other: over loopback a
        megabyte by ``sendfile`` cost 0.42 s of CPU per GB, with 256 KB 0.09 s.
        """
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)

    @property
    def unsent(self) -> int:
        """Bytes of replies that the socket has not taken yet."""
        return self._send_queue.unsent

    def doRead(self) -> ConnectionLost | ConnectionDone | None:  # type: ignore[override]
        """
        Receive, and let the protocol serve what is there: once, or to the end of a large frame, so that few of these
        are in memory at a time, and are served while they are in the processor's caches.
        """
        protocol: Any = self.protocol
        frames = protocol.frames
        received = 0
        while True:
            room = frames.room()
            if not room:
                # Whole frames are waiting to be served. The protocol resumes reading after that.
                self.pause_reading()
                return None
            try:
                count = self.socket.recv_into(room)
            except BlockingIOError:
                return None
            except OSError:
                return main.CONNECTION_LOST
            if not count:
                return main.CONNECTION_DONE
            was_full = count == len(room)
            # Views of the buffer end here: it may be given to another connection.
            del room
            frames.filled(count)
            protocol.metrics.bytes_in += count
            protocol.frames_ready()
            if was_full and frames.capacity < _WIDEST and self.connected:
                protocol.enlarge()
            if count < FLOOR:
                return None
            received += count
            if not frames.lacks_large or received >= _MOST_AT_ONCE or not self._reading or not self.connected:
                return None

    def send(self, parts: list[Part]) -> None:
        """Send ``parts`` now if nothing is queued before them; the reactor sends the rest later."""
        if not self.connected or self._aborting:
            return
        send_queue = self._send_queue
        if send_queue.unsent:
            send_queue.push(parts)
            return
        if self.is_in_batch:
            self._batch.send()
            self.send(parts)
            return
        if self._batch.is_open and (small := small_bytes(parts, LARGEST)) is not None:
            send_queue.count(len(small))
            self._batch.add(self, small)
            return
        if len(parts) == 1 and isinstance(data := parts[0], bytes):
            # The usual reply: one system call and no bookkeeping.
            try:
                sent = self.socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._fail(main.CONNECTION_LOST)
                return
            send_queue.count(sent)
            if sent == len(data):
                return
            send_queue.push([memoryview(data)[sent:]])
            self.startWriting()
            return
        send_queue.push(parts)
        error = self._flush()
        if error is not None:
            self._fail(error)
        elif self.unsent and not send_queue.waits:
            self.startWriting()

    def doWrite(self) -> Exception | None:  # type: ignore[override]
        """Continue sending; called by the reactor when the socket is writable."""
        send_queue = self._send_queue
        if send_queue.unsent:
            error = self._flush()
            if error is not None:
                return error
        if not send_queue.unsent:
            self.stopWriting()
            if self.disconnecting:
                return main.CONNECTION_DONE
        elif send_queue.waits:
            self.stopWriting()
        self.protocol.sent()  # type: ignore[attr-defined]
        return None

    def thread_sent(self, sent: int, error: OSError | None) -> None:
        """A thread has sent what it was given: continue."""
        if not self.connected or self._aborting:
            return
        send_queue = self._send_queue
        problem = self._attempt(send_queue.sent_by_thread, sent, error)
        if problem is None and send_queue.unsent:
            problem = self._flush()
        if problem is not None:
            self._fail(problem)
            return
        if (self.disconnecting or send_queue.unsent) and not send_queue.waits:
            # Sends the rest, or ends the connection, in a turn of its own.
            self.startWriting()
        self.protocol.sent()  # type: ignore[attr-defined]

    def batch_sent(self, data: bytes, sent: int) -> None:
        """Of a response in a batch not all was sent: send the rest, or end the connection."""
        taken = max(sent, 0)
        self._send_queue.count(taken - len(data))
        if not self.connected or self._aborting:
            return
        if sent < 0 and sent != -errno.EAGAIN:
            self._fail(main.CONNECTION_LOST)
            return
        self._send_queue.push([memoryview(data)[taken:]])
        self.startWriting()
        self.protocol.sent()  # type: ignore[attr-defined]

    def write(self, data: bytes) -> None:
        """Send ``data`` (for callers that only know ``ITransport``)."""
        self.send([bytes(data)])

    def writeSequence(self, iovec: Any) -> None:
        """Send these one after the other."""
        self.send([bytes(data) for data in iovec])

    def pause_reading(self) -> None:
        """Stop receiving until :meth:`resume_reading`."""
        if self._reading:
            self._reading = False
            self.stopReading()

    def resume_reading(self) -> None:
        """Receive again."""
        if not self._reading and self.connected and not self.disconnecting:
            self._reading = True
            self.startReading()

    def connectionLost(self, reason: Failure) -> None:
        """Drop unsent replies, with their references to files."""
        if self._send_queue.is_away or self._fetching is not None:
            # The thread has a descriptor of its own.
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)
        self._send_queue.clear()
        super().connectionLost(reason)

    @property
    def may_answer_fetches(self) -> bool:
        """Whether a thread can answer the peer's next requests."""
        fetches: NativeFetches | None = getattr(self.reactor, "fetches", None)
        return fetches is not None and bool(self.connected) and not (self.disconnecting or self._aborting)

    def answer_fetches(self, prepared: PreparedFetches) -> bool:
        """Have a thread answer the peer's next requests; returns whether it does."""
        if self.is_in_batch:
            self._batch.send()
            if self.unsent or self._aborting:
                # What the thread sends would come before the rest of that response.
                return False
        try:
            self._fetching = self.reactor.fetches.submit(self, self.fileno(), prepared), self.protocol  # type: ignore[attr-defined]
        except (OSError, RuntimeError, ValueError):
            return False
        return True

    def recall_fetches(self) -> None:
        """Have the thread stop to answer."""
        if self._fetching is not None:
            self.reactor.fetches.recall(self._fetching[0])  # type: ignore[attr-defined]

    def fetches_answered(self, answered: AnsweredFetches) -> None:
        """The thread has stopped to answer."""
        assert self._fetching is not None
        (_, protocol), self._fetching = self._fetching, None
        protocol.metrics.bytes_in += answered.bytes_in + len(answered.received)
        protocol.metrics.bytes_out += answered.bytes_out
        protocol.fetches_answered(answered)
        if answered.error is not None and self.connected:
            self._fail(main.CONNECTION_LOST)

    def _thread(self) -> Callable[[Parts], bool] | None:
        """The sender that uses threads, if other connections are busy."""
        sends: NativeSends | None = getattr(self.reactor, "sends", None)
        return None if sends is None or not sends.is_busy else self._hand_over

    def _hand_over(self, parts: Parts) -> bool:
        """Have a thread send these; returns whether it does."""
        try:
            self.reactor.sends.send(self, self.fileno(), parts)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True

    def _loaded(self) -> None:
        """Send what had to be read first, in a turn of its own."""
        if self.connected and not self._aborting:
            self.startWriting()

    def _flush(self) -> Exception | None:
        """Send what the socket takes; returns why the connection must end."""
        return self._attempt(self._send_queue.flush, self.socket)

    def _attempt(self, send: Callable[..., None], *args: Any) -> Exception | None:
        """Call a method of the send queue; returns why the connection must end."""
        try:
            send(*args)
        except SliceTruncated as e:
            # A reset, not an orderly close: the peer expects the whole frame.
            self._log.error("cannot go on sending to {peer}: {error}", peer=self.getPeer(), error=e)
            return ConnectionAborted()
        except (BrokenPipeError, ConnectionError, TimeoutError):
            return main.CONNECTION_LOST
        except (OSError, StorageError) as e:
            self._log.error("cannot go on sending to {peer}: {error}", peer=self.getPeer(), error=e)
            return ConnectionAborted()
        return None

    def _fail(self, error: Exception) -> None:
        """The connection broke in the middle of something: notify the protocol in a turn of its own."""
        if self.disconnected or self._aborting:
            return
        self._aborting = True
        self._send_queue.clear()
        self.stopReading()
        self.stopWriting()
        self.doRead = self.doWrite = lambda: None  # type: ignore[method-assign]
        self.reactor.callLater(0, self.connectionLost, Failure(error))  # type: ignore[attr-defined]


class ServerPort(tcp.Port):
    """A listening TCP port whose connections are :class:`ServerTransport`."""

    transport = ServerTransport
