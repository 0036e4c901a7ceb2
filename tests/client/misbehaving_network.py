"""
A network between a client and whole brokers in memory that delays, truncates, drops, repeats or changes responses
(:mod:`tests.client.misbehaving_brokers`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.net.channel import Channel
from logbus.wire.connection import api_key_of
from tests.client.misbehaving_brokers import Misbehavior

_LENGTH = struct.Struct(">i")
Change = Callable[[Random, Any, Any], None]
"""Makes an answer say something else; given what was asked, too."""


@define(eq=False)
class MisbehavingNetwork:
    """
    :ivar misbehaviors: one of them is chosen for an answer; nothing: all is passed on.
    :ivar changes: changes of responses, by API key, while there are any.
    :ivar share: the share of responses that are changed.
    :ivar about: API keys whose responses may be changed.
    :ivar patience: seconds that clients wait for an answer.
    :ivar told: the number of changed responses.
    """

    clock: Any
    chance: Random
    about: frozenset[int]
    misbehaviors: tuple[Misbehavior, ...] = ()
    changes: dict[int, Change] = field(factory=dict)
    share: float = 0.4
    patience: float = 2.0
    told: int = 0

    def endpoint(self, inner: Callable[[str, int], IStreamClientEndpoint]) -> Callable[[str, int], Any]:
        """Where brokers are reached by this wire."""
        return lambda host, port: _Endpoint(self, inner(host, port))

    def be_honest(self) -> None:
        """The truth from now on."""
        self.misbehaviors, self.changes = (), {}

    def pass_on(self, to: _Tap, key: int, frame: bytes) -> None:
        """An answer for the client."""
        if self.misbehaviors and key in self.about and self.chance.random() < self.share:
            self.told += 1
            misbehavior: Any = self.chance.choice(self.misbehaviors)
            misbehavior(self, to, frame)
        else:
            to.heard(frame)

    def request(self, original: Any) -> Any:
        """In the place of :meth:`Channel.request`: answers are changed once they are read."""

        def request(channel: Channel, message: Any, version: int | None = None, timeout: float | None = None) -> Any:
            answer = original(channel, message, version, timeout)
            change = self.changes.get(api_key_of(message))
            if change is None or self.chance.random() >= self.share:
                return answer

            def changed(response: Any) -> Any:
                self.told += 1
                change(self.chance, message, response)
                return response

            return answer.addCallback(changed)

        return request


@implementer(IStreamClientEndpoint)
@define(eq=False)
class _Endpoint:
    wire: MisbehavingNetwork
    inner: IStreamClientEndpoint

    def connect(self, factory: Any) -> Deferred[Any]:
        connecting: Deferred[Any] = self.inner.connect(Factory.forProtocol(lambda: _Tap(self.wire, factory)))  # type: ignore[arg-type]
        return connecting.addCallback(lambda tap: tap.client)


class _Tap(Protocol):
    """Sits between a connection and its client."""

    def __init__(self, wire: MisbehavingNetwork, factory: Any) -> None:
        self.wire, self.client = wire, factory.buildProtocol(None)
        self._asked: dict[bytes, int] = {}
        self._out = self._in = b""
        self._lost = False

    def connectionMade(self) -> None:
        self.client.makeConnection(_Transport(self, self.transport))

    def written(self, data: bytes) -> None:
        """Note what is asked."""
        self._out += data
        while len(self._out) >= 4 and len(self._out) >= 4 + _LENGTH.unpack_from(self._out)[0]:
            size = 4 + _LENGTH.unpack_from(self._out)[0]
            frame, self._out = self._out[:size], self._out[size:]
            self._asked[frame[8:12]] = struct.unpack_from(">h", frame, 4)[0]

    def dataReceived(self, data: bytes) -> None:
        self._in += data
        while len(self._in) >= 4 and len(self._in) >= 4 + _LENGTH.unpack_from(self._in)[0]:
            size = 4 + _LENGTH.unpack_from(self._in)[0]
            frame, self._in = self._in[:size], self._in[size:]
            self.wire.pass_on(self, self._asked.pop(frame[4:8]), frame)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if not self._lost:
            self._lost = True
            self.client.connectionLost(reason)

    def heard(self, data: bytes) -> None:
        """The client receives this, unless the connection is gone."""
        if not self._lost:
            self.client.dataReceived(data)

    def break_off(self) -> None:
        if self.transport is not None:
            self.transport.loseConnection()


class _Transport:
    """The client's end: all is the connection's, but that it is noted what is written."""

    def __init__(self, tap: _Tap, inner: Any) -> None:
        self._tap, self._inner = tap, inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, data: bytes) -> None:
        self._tap.written(bytes(data))
        self._inner.write(data)
