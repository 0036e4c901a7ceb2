"""Fakes shared by the tests of the network layer."""

from __future__ import annotations

import os
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.logger import LogLevel, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.net.connection_limits import ConnectionLimits
from logbus.net.factory import KafkaServerFactory
from logbus.net.protocol import KafkaServerProtocol
from logbus.net.reactor import BrokerReactor
from logbus.net.request_context import RequestContext
from logbus.net.request_times import RequestTimes
from logbus.net.shared_resources import SharedResources
from logbus.records.file_slice import BatchRange, FileSlice, joined
from logbus.wire.connection import ClientConnection, Request
from logbus.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from logbus.wire.messages.metadata import MetadataRequest, MetadataResponse
from logbus.wire.messages.records import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

LOST = Failure(ConnectionLost())
SERVED = {0: (3, 9), 1: (4, 12), 3: (0, 9), 18: (0, 3)}
VERSIONS = {0: 7, 1: 6, 3: 1, 18: 0}


def produce(tag: int = 0, records: bytes = b"batch", acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(index=tag, records=records)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def fetch(tag: int = 0, size: int = 100) -> FetchRequest:
    partition = FetchPartition(partition=tag, fetch_offset=0, partition_max_bytes=size)
    return FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=size, topics=[FetchTopic(topic="t", partitions=[partition])]
    )


def metadata() -> MetadataRequest:
    return MetadataRequest(topics=None)


def produced(tag: int) -> ProduceResponse:
    answer = PartitionProduceResponse(index=tag, error_code=0, base_offset=tag)
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[answer])])


def fetched(tag: int, records: Any) -> FetchResponse:
    data = PartitionData(partition_index=tag, high_watermark=tag, records=records)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])


def described(tag: int = 0) -> MetadataResponse:
    return MetadataResponse(brokers=[], controller_id=tag, topics=[])


def api_versions() -> ApiVersionsResponse:
    keys = [ApiVersion(api_key=key, min_version=first, max_version=last) for key, (first, last) in SERVED.items()]
    return ApiVersionsResponse(api_keys=keys)


def tag_of(request: Request) -> int:
    """The number a test gave a request made here."""
    if request.api_key == 0:
        return int(request.message.topic_data[0].partition_data[0].index)
    if request.api_key == 1:
        return int(request.message.topics[0].partitions[0].partition)
    return 0


@define
class Client:
    """The far end, in memory: bytes of requests, and what the answers say."""

    wire: ClientConnection = field(factory=lambda: ClientConnection("tester"))

    def ask(self, message: Any, version: int | None = None, expects_response: bool = True) -> bytes:
        key = {ProduceRequest: 0, FetchRequest: 1, MetadataRequest: 3, ApiVersionsRequest: 18}[type(message)]
        chosen = VERSIONS[key] if version is None else version
        return joined(self.wire.request(message, chosen, expects_response=expects_response)[1])

    def answers(self, stream: bytes) -> list[Any]:
        """The responses in ``stream``, which ends with a whole one."""
        out = []
        while stream:
            (length,) = struct.unpack_from(">i", stream)
            assert len(stream) >= 4 + length, "an answer is cut short"
            out.append(self.wire.receive(stream[4 : 4 + length])[1])
            stream = stream[4 + length :]
        return out

    def tags(self, stream: bytes) -> list[int]:
        """The numbers of the produce, fetch and metadata responses in ``stream``."""
        out: list[int] = []
        for answer in self.answers(stream):
            if isinstance(answer, ProduceResponse):
                out.append(answer.responses[0].partition_responses[0].index)
            elif isinstance(answer, FetchResponse):
                out.append(answer.responses[0].partitions[0].partition_index)
            elif isinstance(answer, MetadataResponse):
                out.append(-1)
        return out


@define(eq=False)
class Handler:
    """A router that answers at once, except for requests whose tag is in ``held``: they get a Deferred."""

    held: set[int] = field(factory=set)
    seen: list[tuple[int, int]] = field(factory=list)
    contexts: list[RequestContext] = field(factory=list)
    waiting: dict[int, Deferred[Any]] = field(factory=dict)
    cancelled: list[int] = field(factory=list)
    records: Any = b""
    override: Callable[[RequestContext, Request], Any] | None = None

    def __call__(self, context: RequestContext, request: Request) -> Any:
        tag = tag_of(request)
        self.seen.append((request.api_key, tag))
        self.contexts.append(context)
        if self.override is not None:
            return self.override(context, request)
        if request.api_key != 3 and tag in self.held:
            waiting: Deferred[Any] = Deferred(lambda _: self.cancelled.append(tag))
            self.waiting[tag] = waiting
            return waiting.addCallback(lambda _: self.answer(request.api_key, tag))
        return self.answer(request.api_key, tag)

    def answer(self, api_key: int, tag: int) -> Any:
        if api_key == 0:
            return produced(tag)
        if api_key == 1:
            return fetched(tag, self.records)
        return described() if api_key == 3 else api_versions()

    def release(self, tag: int) -> None:
        self.waiting.pop(tag).callback(None)


def iterate(clock: Clock) -> None:
    """Run what is due now, but nothing that becomes due by it: one iteration of a reactor (``advance`` runs both)."""
    due = [call for call in clock.calls if call.getTime() <= clock.seconds()]
    for call in due:
        if not call.cancelled:
            clock.calls.remove(call)
            call.called = 1
            call.func(*call.args, **call.kw)


@define(eq=False)
class Server:
    """A listener on a virtual clock, and connections to it in memory."""

    handler: Handler = field(factory=Handler)
    limits: ConnectionLimits = field(factory=ConnectionLimits)
    clock: Clock = field(factory=Clock)
    factory: KafkaServerFactory = field(init=False)

    def __attrs_post_init__(self) -> None:
        shared = SharedResources(self.clock, self.limits, times=RequestTimes(self.clock.seconds))
        self.factory = KafkaServerFactory(SERVED, self.handler, shared)

    def connect(self, host: str = "10.0.0.1") -> tuple[KafkaServerProtocol, StringTransport]:
        address = IPv4Address("TCP", host, 4000)
        protocol = self.factory.buildProtocol(address)
        assert isinstance(protocol, KafkaServerProtocol), "the connection was refused"
        transport = StringTransport(peerAddress=address)
        protocol.makeConnection(transport)
        return protocol, transport

    def turn(self) -> None:
        """Let what was put off to a later turn of the reactor happen."""
        self.clock.advance(0)


def taken(transport: StringTransport) -> bytes:
    """What was sent since the last time."""
    data: bytes = transport.value()
    transport.clear()
    return data


class CapturedWarnings:
    """Warnings logged within a ``with`` block."""

    def __enter__(self) -> list[dict[str, Any]]:
        self.events: list[dict[str, Any]] = []

        def observe(event: Any) -> None:
            if event["log_level"] is LogLevel.warn:
                self.events.append(event)

        self.observer = observe
        globalLogPublisher.addObserver(observe)
        return self.events

    def __exit__(self, *args: object) -> None:
        globalLogPublisher.removeObserver(self.observer)


@implementer(IStreamClientEndpoint)
@define(eq=False)
class Wire:
    """An endpoint that ends in memory: at a server of ours, if there is one."""

    server: Server | None = None
    channel: Any = None
    transport: StringTransport = field(factory=StringTransport)
    far: Any = None
    far_transport: StringTransport | None = None

    def connect(self, factory: Any) -> Deferred[Any]:
        self.channel = factory.buildProtocol(None)
        self.channel.makeConnection(self.transport)
        if self.server is not None:
            self.far, self.far_transport = self.server.connect()
        return succeed(self.channel)

    def pump(self) -> None:
        """Carry bytes both ways until there are none."""
        assert self.far_transport is not None
        while True:
            there, back = taken(self.transport), taken(self.far_transport)
            if not there and not back:
                return
            if there:
                self.far.dataReceived(there)
            if back:
                self.channel.dataReceived(back)


@define(eq=False)
class _InMemory:
    """A file of tmpfs, and what a log directory knows of it."""

    file: Any

    def fileno(self) -> int:
        fd: int = self.file.fileno()
        return fd

    def is_cold(self, position: int, length: int) -> bool | None:
        return False


@define(eq=False)
class TemporaryFile:
    """
    A file of known bytes, and slices of it.

    :ivar on_tmpfs: the file system cannot tell that it is in memory.
    """

    data: bytes
    on_tmpfs: bool = False
    file: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        # Slices of it outlive this.
        self.file = open(os.memfd_create("file"), "r+b") if self.on_tmpfs else tempfile.TemporaryFile()  # noqa: SIM115
        self.file.write(self.data)
        self.file.flush()

    def slice(self, position: int = 0, length: int | None = None) -> FileSlice:
        file = _InMemory(self.file) if self.on_tmpfs else self.file
        return FileSlice(file, position, len(self.data) - position if length is None else length)

    def batches(self, position: int = 0, end: int | None = None, indexed: Sequence[int] = ()) -> BatchRange:
        """The batches in a part of it, a segment; an offset index has entries for those at some positions."""
        base, entries = struct.unpack_from(">q", self.data)[0], bytearray()
        for at in indexed:
            # Of those of the tests each batch has three offsets.
            entries += struct.pack(">ii", struct.unpack_from(">q", self.data, at)[0] + 2 - base, at)
        index, end = TemporaryFile(bytes(entries), self.on_tmpfs), len(self.data) if end is None else end
        return BatchRange(base, self.file, position, end, index.file, len(indexed))

    def truncate(self, size: int) -> None:
        os.ftruncate(self.file.fileno(), size)


@define(eq=False)
class Loop:
    """A reactor of our own, turned by the test until what it waits for is there; nothing uses the global one."""

    reactor: Any = field(factory=BrokerReactor)

    def until(self, condition: Callable[[], Any], seconds: float = 10.0) -> None:
        deadline = time.monotonic() + seconds
        # A process that stood still for long has its turns nevertheless.
        left = int(seconds / 0.005)
        while not condition():
            if left <= 0 and time.monotonic() > deadline:
                raise AssertionError(f"it did not happen in {seconds} s")
            self.reactor.iterate(0.005)
            left -= 1

    def turns(self, count: int = 10) -> None:
        for _ in range(count):
            self.reactor.iterate(0)

    def close(self) -> None:
        for selectable in self.reactor.removeAll():
            selectable.connectionLost(Failure(ConnectionDone()))
        self.turns(3)
        for call in self.reactor.getDelayedCalls():
            call.cancel()
        for internal in list(self.reactor._internalReaders):
            internal.connectionLost(None)
        self.reactor._poller.close()


@define(eq=False)
class Peer:
    """A client's socket, read only when the test says so."""

    sock: socket.socket
    received: bytearray = field(factory=bytearray)
    ended: bool = False

    def read(self, most: int = 1 << 20) -> None:
        """Take what is there, without waiting."""
        try:
            data = self.sock.recv(most)
        except BlockingIOError:
            return
        except ConnectionResetError:
            self.ended = True
            return
        self.ended = self.ended or not data
        self.received += data

    def frames(self) -> bytes:
        """The whole frames received, which are removed."""
        at = 0
        while len(self.received) >= at + 4:
            (length,) = struct.unpack_from(">i", self.received, at)
            if len(self.received) < at + 4 + length:
                break
            at += 4 + length
        whole = bytes(self.received[:at])
        del self.received[:at]
        return whole
