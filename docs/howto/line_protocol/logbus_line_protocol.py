"""
A protocol plugin for logbus: every line that comes in over TCP becomes a record.

``--listen logs=lines:tcp:1514`` takes the lines into the topic ``logs``: the listener's name is the topic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocolFactory
from twisted.internet.protocol import Factory, connectionDone
from twisted.logger import Logger
from twisted.plugin import IPlugin
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.ilogbus import IBroker, IProtocolPlugin, Listener


class LinesToRecords(LineOnlyReceiver):
    """
    Appends each line to a topic; lines that arrive together share a batch.

    While a batch is being written nothing more is read: a sender faster than the log is slowed down by TCP.

    :ivar writing: fires when what was read is written; None when all is.
    """

    delimiter = b"\n"
    MAX_LENGTH = 65536
    transport: Any
    _log = Logger()

    def __init__(self, broker: IBroker, topic: str, closed: Callable[[LinesToRecords], None]) -> None:
        self.writing: Deferred[None] | None = None
        self._broker = broker
        self._topic = topic
        self._closed = closed
        self._lines: list[tuple[None, bytes]] = []

    def dataReceived(self, data: bytes) -> None:
        super().dataReceived(data)
        if self._lines and self.writing is None:
            self.transport.pauseProducing()
            self.writing = Deferred.fromCoroutine(self._write())
            # Behind the assignment: a write into a topic that exists is over before it returns.
            self.writing.addBoth(self._written)

    def lineReceived(self, line: bytes) -> None:
        self._lines.append((None, line.rstrip(b"\r")))

    def lineLengthExceeded(self, line: bytes) -> None:
        self._log.warn(
            "{peer}: a line is longer than {limit} bytes", peer=self.transport.getPeer(), limit=self.MAX_LENGTH
        )
        self.transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.writing is None:
            self._closed(self)

    async def _write(self) -> None:
        try:
            while self._lines:
                lines, self._lines = self._lines, []
                await self._broker.append(self._topic, lines)
        except Exception:
            self._log.failure("lines for {topic} were not written; closing", topic=self._topic)
            self.transport.abortConnection()

    def _written(self, result: object) -> None:
        self.writing = None
        if self.transport.connected:
            self.transport.resumeProducing()
        else:
            self._closed(self)


@define(eq=False)
class LineFactory(Factory):
    """Makes the connections of one listener."""

    broker: IBroker
    topic: str
    noisy = False
    _open: set[LinesToRecords] = field(factory=set, init=False)

    def buildProtocol(self, addr: object) -> LinesToRecords:
        protocol = LinesToRecords(self.broker, self.topic, self._open.discard)
        self._open.add(protocol)
        return protocol

    async def _finish(self) -> None:
        for protocol in list(self._open):
            protocol.transport.loseConnection()
            if protocol.writing is not None:
                await protocol.writing

    def drain(self) -> Deferred[None]:
        """The broker stops: what was read is written, then the connections close."""
        return Deferred.fromCoroutine(self._finish())


@implementer(IPlugin, IProtocolPlugin)
class LinePlugin:
    """``lines``: each line is a record of the topic that the listener is named after."""

    name = "lines"
    summary = "each line of text becomes a record; the listener's name is the topic"

    def factory(self, broker: IBroker, listener: Listener) -> IProtocolFactory:
        return LineFactory(broker, listener.name)
