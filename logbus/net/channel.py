"""
A client's connection to one broker. :func:`logbus.net.connect.connect` makes it.

A channel does not reconnect: its user knows better whether lost requests may be repeated.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define
from twisted.internet import main
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.errors import Disconnected, LogbusError, ProtocolError, RequestTimedOut
from logbus.records.file_slice import Parts, joined
from logbus.security.tls.tls_errors import describe_tls_error, is_tls_error
from logbus.timers import Timer, Timers
from logbus.wire.connection import ClientConnection, api_key_of
from logbus.wire.frame_buffer import FrameBuffer
from logbus.wire.messages import api
from logbus.wire.negotiation import highest_common_version
from logbus.wire.version_range import VersionRange

_KEEP = 1 << 20
_KEEP_LENT = 1 << 24
"""Bytes of memory kept between responses."""

_LOW_WATER_MARK = 1 << 20
"""Low-water mark for receiving a large response: the process wakes for this many bytes, not for each segment."""

_LOW_WATER_MARK_LENT = 1 << 22
"""
The same for a follower: it wakes once for a whole response, since each time costs it and its leader more than the
copying that it could do meanwhile.
"""


@define(eq=False)
class _Waiting:
    """A request without a response."""

    name: str
    answer: Deferred[Any]
    timer: Timer
    seconds: float
    sent_at: float = 0.0


@define(eq=False)
class _Held:
    """A request that waits until it may be sent; ``answer`` is None for one without a response."""

    message: Any
    version: int | None
    timeout: float | None
    answer: Deferred[Any] | None


class Channel(Protocol):
    """
    A connection to one broker.

    :param answered: called with the name of the API and the seconds that it took, when a request is answered.

    :ivar versions: what the broker serves, by API key; empty until negotiated.
    :ivar features: the cluster's finalized feature levels (KIP-584), by name; empty until negotiated, and for brokers
        that do not report them.
    """

    _log = Logger()

    def __init__(
        self,
        timers: Timers,
        *,
        client_id: str | None = None,
        timeout: float = 30.0,
        response_max_bytes: int = 128 * 1024 * 1024,
        lends: bool = False,
        answered: Callable[[str, float], object] | None = None,
    ) -> None:
        self.versions: Mapping[int, VersionRange] = {}
        self.features: Mapping[str, int] = {}
        # The versions that both sides support, as far as they were asked for, and what they were made from.
        self._agreed: dict[int, int] = {}
        self._agreed_of: Mapping[int, VersionRange] = self.versions
        self._timers = timers
        self._timeout = timeout
        self._wire = ClientConnection(client_id)
        self._frames = FrameBuffer(response_max_bytes)
        self._lends = lends
        self._answered = answered
        self._socket: socket.socket | None = None
        self._wakes_for = 1
        self._all_answered = True
        self._waiting: dict[int, _Waiting] = {}
        self._held: list[_Held] | None = None
        self._end: LogbusError | None = None
        self._lost = False
        self._watchers: list[Deferred[None]] = []

    @property
    def usable(self) -> bool:
        """Whether requests can still be sent."""
        return self._end is None and self.connected == 1

    @property
    def ended_by(self) -> LogbusError | None:
        """The reason why no more requests can be sent; None while they can."""
        return self._end

    @property
    def peer(self) -> str:
        """The broker's address, for messages."""
        address: Any = self.transport.getPeer() if self.transport is not None else None
        host = getattr(address, "host", None)
        return str(address) if host is None else f"{host}:{address.port}"

    @property
    def silence(self) -> float:
        """
        Seconds for which a response is overdue that the broker could have sent at once, or after the wait that its
        request allows. Only of channels that are told how long requests take (``answered``).
        """
        now = self._timers.clock.seconds()
        waits = (now - each.sent_at - max(0.0, each.seconds - self._timeout) for each in self._waiting.values())
        return max(0.0, *waits) if self._answered is not None and self._waiting else 0.0

    def version(self, api_key: int) -> int:
        """
        The highest version of an API that both sides support.

        :raises ApiError: UNSUPPORTED_VERSION: there is none.
        """
        if self._agreed_of is not self.versions:
            self._agreed, self._agreed_of = {}, self.versions
        agreed = self._agreed.get(api_key)
        if agreed is None:
            agreed = self._agreed[api_key] = highest_common_version(api_key, self.versions, self.peer)
        return agreed

    def request(self, message: Any, version: int | None = None, timeout: float | None = None) -> Deferred[Any]:
        """
        Send a request.

        Cancelling the Deferred drops the response; the request itself is on its way.

        :param version: default: the highest that both sides support.
        :param timeout: seconds to wait for the response; default: the channel's. A request that waits at the broker (a
            long poll, a join) needs that time in addition.
        :returns: fires with the response, whatever error codes are in it. Records in it belong to the caller.
        :raises ApiError: (in the Deferred, as all of these) UNSUPPORTED_VERSION: there is no common version.
        :raises EncodeError: that version cannot express a value in ``message``.
        :raises Disconnected: the connection was lost first.
        :raises RequestTimedOut: the response did not come in time.
        """
        if self._held is not None:
            held: Deferred[Any] = Deferred()
            self._held.append(_Held(message, version, timeout, held))
            return held
        return self.request_held(message, version, timeout)

    def request_held(self, message: Any, version: int | None = None, timeout: float | None = None) -> Deferred[Any]:
        """As :meth:`request`, also between :meth:`hold` and :meth:`release`."""
        answer: Deferred[Any] = Deferred()
        try:
            key = api_key_of(message)
            correlation_id, parts = self._encode(message, key, version, True)
        except BaseException:
            answer.errback()
            return answer
        seconds = self._timeout if timeout is None else timeout
        name = api(key).name
        timer = self._timers.call_later(seconds, lambda: self._expire(name, seconds))
        is_first = not self._waiting and self._all_answered
        self._waiting[correlation_id] = _Waiting(name, answer, timer, seconds)
        if self._answered is not None:
            self._waiting[correlation_id].sent_at = self._timers.clock.seconds()
        data = joined(parts)
        # All earlier requests are answered, so nothing is left in the transport's buffer.
        self._write(self._send_now(data) if is_first else data)
        return answer

    def send(self, message: Any, version: int | None = None) -> None:
        """
        Send a request without a response: a Produce with acks=0.

        :raises Disconnected: and the other errors of :meth:`request`.
        """
        if self._held is not None:
            self._held.append(_Held(message, version, None, None))
            return
        self._all_answered = False
        self._write(joined(self._encode(message, api_key_of(message), version, False)[1]))

    def hold(self) -> None:
        """Let further requests wait, as while the client logs in again."""
        if self._held is None:
            self._held = []

    def release(self) -> None:
        """Send the requests that wait."""
        held, self._held = self._held or [], None
        for one in held:
            if one.answer is None:
                if self._end is None:
                    self.send(one.message, one.version)
            elif not one.answer.called:  # its caller may have cancelled it
                self.request(one.message, one.version, one.timeout).chainDeferred(one.answer)

    def close(self) -> Deferred[None]:
        """
        Close the connection; requests without a response fail.

        :returns: fires when the connection is closed.
        """
        if self._end is None:
            self._fail(Disconnected(f"the connection to {self.peer} was closed here"))
            if self.transport is not None:
                self.transport.loseConnection()
        return self.when_lost()

    def when_lost(self) -> Deferred[None]:
        """Fires when the connection is closed, for whatever reason."""
        if self._lost:
            return succeed(None)
        lost: Deferred[None] = Deferred()
        self._watchers.append(lost)
        return lost

    # Called by Twisted.

    def connectionMade(self) -> None:
        """Disable Nagle's algorithm, and enable the detection of dead peers."""
        transport: Any = self.transport
        if ITCPTransport.providedBy(transport):
            transport.setTcpNoDelay(True)
            transport.setTcpKeepAlive(True)
        # If there is such a transport, its module is imported; a client on asyncio's event loop does without.
        tcp = sys.modules.get("twisted.internet.tcp")
        if tcp is not None and isinstance(transport, tcp.Client):
            self._socket = transport.socket
            if self._lends:
                # As the transport would, but without a copy.
                transport.doRead = self._receive

    def dataReceived(self, data: bytes) -> None:
        """Process received bytes."""
        self._frames.append(data)
        self._received()

    def room(self) -> memoryview:
        """Memory to receive into; then call :meth:`filled`."""
        return self._frames.room()

    def filled(self, count: int, most: int = _LOW_WATER_MARK) -> int:
        """
        Process bytes that were received into :meth:`room`.

        :param most: upper bound of what is returned.
        :returns: the number of bytes to wait for before these methods are called again.
        """
        self._frames.filled(count)
        self._received()
        return min(self._frames.missing, most) or 1

    def _receive(self) -> ConnectionLost | ConnectionDone | None:
        """Receive what there is of a response, straight into the buffer (the transport's ``doRead``)."""
        transport: Any = self.transport
        wakes_for, left = self._wakes_for, _LOW_WATER_MARK_LENT
        while left > 0:
            room = self.room()
            try:
                count = transport.socket.recv_into(room)
            except BlockingIOError:
                break
            except OSError:
                return main.CONNECTION_LOST
            if not count:
                return main.CONNECTION_DONE
            left -= count
            wakes_for = self.filled(count, _LOW_WATER_MARK_LENT)
            # What fills all the room of a large response is the begin of more that is there already.
            if wakes_for == 1 or count < len(room) or self._end is not None:
                break
        if wakes_for != self._wakes_for and self._end is None:
            self._wakes_for = wakes_for
            transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wakes_for)
        return None

    def _received(self) -> None:
        frames = self._frames
        keep = _KEEP_LENT if self._lends else _KEEP
        try:
            while (frame := frames.next_frame()) is not None:
                if self._end is not None:
                    return
                # The caller keeps the response, but not the buffer's memory.
                correlation_id, response = self._wire.receive(frame if self._lends else bytes(frame))
                waiting = self._waiting.pop(correlation_id)
                waiting.timer.cancel()
                if self._answered is not None:
                    self._answered(waiting.name, self._timers.clock.seconds() - waiting.sent_at)
                waiting.answer.callback(response)
            if frames.shortage:
                frames.grow()
            elif frames.capacity > keep:
                frames.shrink()
        except ProtocolError as e:
            self._log.warn("hanging up on {peer}: {error}", peer=self.peer, error=e)
            self._protocol_error(Disconnected(f"the connection to {self.peer} was closed here: {e}"))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Fail requests without a response."""
        self._lost = True
        lost = Disconnected(f"the connection to {self.peer} was lost: {_said_of(reason)}")
        lost.__cause__ = reason.value
        self._frames.clear()
        self._fail(lost)
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.callback(None)

    # Internals.

    def _encode(self, message: Any, key: int, version: int | None, expects_response: bool) -> tuple[int, Parts]:
        if self._end is not None:
            raise type(self._end)(*self._end.args)
        if version is None:
            version = self.version(key)
        return self._wire.request(message, version, expects_response=expects_response)

    def _send_now(self, data: bytes) -> bytes:
        """Send without going through the reactor, which takes three system calls more; returns the unsent rest."""
        if self._socket is None:
            return data
        try:
            return data[self._socket.send(data) :]
        except OSError:
            # The socket takes nothing now, or is closed: the transport finds out which.
            return data

    def _write(self, data: bytes) -> None:
        assert self.transport is not None, "a channel is made by connecting"
        if data:
            self.transport.write(data)

    def _expire(self, name: str, seconds: float) -> None:
        self._protocol_error(RequestTimedOut(f"{name}: no answer from {self.peer} in {seconds:g} s"))

    def _protocol_error(self, error: LogbusError) -> None:
        self._fail(error)
        transport: Any = self.transport
        transport.abortConnection()

    def _fail(self, error: LogbusError) -> None:
        """Fail all requests: none can be answered or sent any more."""
        if self._end is None:
            self._end = error
        if self._held is not None:
            self.release()
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            each.timer.cancel()
            each.answer.errback(error)


def _said_of(reason: Failure) -> str:
    """Return why a connection was lost, in words also where a library of TLS has none."""
    return describe_tls_error(reason.value) if is_tls_error(reason.value) else str(reason.getErrorMessage())
