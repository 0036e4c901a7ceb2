"""
A complete broker in memory, with a virtual clock, a memory disk and a memory metadata store, for tests.

Clients send bytes and decode messages; there is no real time and no socket.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.controller import topic_changes
from logbus.net.protocol import KafkaServerProtocol
from logbus.records.batch import Record, encode_batch
from logbus.records.file_slice import FileSlice, joined
from logbus.testing import memory
from logbus.testing.memory.memory_broker import NOW_S
from logbus.wire.connection import ClientConnection, Request, ServerConnection, api_key_of
from logbus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logbus.wire.messages.records import (
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
)
from logbus.wire.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

NOW_MS = int(NOW_S * 1000)


class MemoryTransport(StringTransport):
    """A transport whose peer reads everything, unless it is paused."""

    def loseConnection(self) -> None:
        super().loseConnection()
        self._end()

    def abortConnection(self) -> None:
        super().abortConnection()
        self._end()

    def _end(self) -> None:
        if self.connected:
            self.connected = False
            self.protocol.connectionLost(Failure(ConnectionError("closed")))


@define(eq=False)
class MemoryBroker(memory.MemoryBroker):
    """A broker, and clients that speak its protocol by hand."""

    def connect(self, host: str = "10.0.0.1", listener: str = "kafka") -> Client:
        address = IPv4Address("TCP", host, 4000)
        protocol = self.plugin.factories[listener].buildProtocol(address)
        assert protocol is not None, "the connection was refused"
        transport = MemoryTransport(peerAddress=address)
        transport.protocol = protocol
        protocol.makeConnection(transport)
        return Client(self, protocol, transport)

    def delete_internal(self, name: str) -> None:
        """Delete an internal topic, which is only possible in the metadata store."""

        async def delete() -> None:
            begun = await self.broker.control.controller.submit(
                lambda active: topic_changes.begin_deletion(active, [name])
            )
            await self.broker.control.controller.end_deletion([name], begun)

        self.now(Deferred.fromCoroutine(delete()))

    def topic_id(self, name: str = "t") -> bytes:
        topic = self.broker.member.metadata.topic(name)
        assert topic is not None
        return topic.topic_id.bytes

    @property
    def watchers(self) -> int:
        """The watchers of all replicas."""
        return sum(len(replica.watchers) for replica in self.broker.replication.replicas)


@define(eq=False)
class Client:
    """A client with one connection."""

    server: MemoryBroker
    protocol: KafkaServerProtocol
    transport: MemoryTransport
    wire: ClientConnection = field(factory=lambda: ClientConnection("tester"))

    @property
    def closed(self) -> bool:
        return not self.transport.connected

    def send(self, message: Any, version: int, *, expects_response: bool = True) -> int:
        """Ask; the correlation id."""
        correlation_id, parts = self.wire.request(message, version, expects_response=expects_response)
        self.feed(joined(parts))
        return correlation_id

    def feed(self, data: bytes) -> None:
        """Raw bytes from the peer."""
        if self.transport.connected:
            self.protocol.dataReceived(data)

    def turn(self, seconds: float = 0) -> None:
        self.server.reactor.advance(seconds)

    def frames(self) -> list[bytes]:
        """The whole frames that came since the last time."""
        data: bytes = self.transport.value()
        self.transport.clear()
        found = []
        while data:
            (length,) = struct.unpack_from(">i", data)
            assert len(data) >= 4 + length, "an answer is cut short"
            found.append(data[4 : 4 + length])
            data = data[4 + length :]
        return found

    def answers(self) -> list[Any]:
        """The responses that came since the last time."""
        return [self.wire.receive(frame)[1] for frame in self.frames()]

    def ask(self, message: Any, version: int) -> Any:
        """Ask, and have the answer, which needs no time but some turns."""
        self.send(message, version)
        for _ in range(20):
            answers = self.answers()
            if answers:
                assert len(answers) == 1
                return answers[0]
            self.turn()
        raise AssertionError(
            "the connection was closed" if self.closed else f"API {api_key_of(message)} was not answered"
        )

    # The requests that tests make all the time.

    def produce(
        self,
        records: bytes | None = None,
        topic: str = "t",
        partition: int = 0,
        *,
        acks: int = 1,
        version: int = 9,
        transactional_id: str | None = None,
    ) -> PartitionProduceResponse:
        response: ProduceResponse = self.ask(
            produce_request(
                a_batch() if records is None else records, topic, partition, acks, transactional_id=transactional_id
            ),
            version,
        )
        return response.responses[0].partition_responses[0]

    def fetch(self, offset: int = 0, topic: str = "t", partition: int = 0, version: int = 12, **given: Any) -> Any:
        """One partition's answer, without waiting."""
        response: FetchResponse = self.ask(
            fetch_request([(topic, partition, offset)], self.server if version >= 13 else None, **given), version
        )
        assert response.error_code == 0, response
        return response.responses[0].partitions[0]

    def create(self, *names: str, partitions: int = 1, version: int = 5, **configs: str) -> Any:
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                assignments=[],
                configs=[CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()],
            )
            for name in names
        ]
        return self.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), version)

    def metadata(self, *names: str, version: int = 9, auto_create: bool = False) -> Any:
        topics = [MetadataRequestTopic(name=name) for name in names] if names else None
        return self.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=auto_create), version)


def a_request(message: Any, version: int) -> Request:
    """A request as a handler gets it."""
    _, parts = ClientConnection("tester").request(message, version)
    return ServerConnection({api_key_of(message): (version, version)}).receive(joined(parts)[4:])


def a_batch(*values: bytes | None, key: bytes | None = b"k", timestamp: int = NOW_MS, **given: Any) -> bytes:
    """A batch of records with these values and one key, as a producer sends it."""
    return encode_batch([Record(0, timestamp, key, value) for value in values or (b"v",)], **given)


def produce_request(
    records: bytes | None, topic: str = "t", partition: int = 0, acks: int = 1, *, transactional_id: str | None = None
) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def fetch_request(
    wants: Sequence[tuple[str, int, int]],
    by_id: MemoryBroker | None = None,
    *,
    partition_max_bytes: int = 1 << 20,
    max_bytes: int = 1 << 24,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    **given: Any,
) -> FetchRequest:
    """A fetch of (topic, partition, offset)s, in this order; by topic id if a broker is given that knows them."""
    asked = {name: given.pop(name, -1) for name in ("current_leader_epoch", "last_fetched_epoch", "log_start_offset")}
    topics: list[FetchTopic] = []
    for topic, partition, offset in wants:
        if not topics or topics[-1].topic != topic:
            topic_id = by_id.topic_id(topic) if by_id is not None else bytes(16)
            topics.append(FetchTopic(topic=topic, topic_id=topic_id, partitions=[]))
        topics[-1].partitions.append(
            FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes, **asked)
        )
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=topics, **given)


def content(answer: PartitionData) -> bytes:
    """The batches in a partition's answer."""
    records = answer.records
    if isinstance(records, FileSlice):
        return records.read()
    return bytes(records or b"")  # type: ignore[arg-type]


class HandlerCase(SynchronousTestCase):
    """A broker with a topic ``t`` of two partitions, and a client."""

    config: Mapping[str, str] = {}

    def setUp(self) -> None:
        self.server = MemoryBroker(self.config).start()
        self.addCleanup(self.server.close)
        self.server.create("t", 2)
        self.client = self.server.connect()
        self.disk = self.server.disks[0]
