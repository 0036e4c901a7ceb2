"""A cluster in memory for tests of the client: brokers that keep batches in lists, on a virtual clock."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone, ConnectionRefusedError
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.errors import ErrorCode
from logbus.model import TopicPartition
from logbus.records.batch import encode_batch, read_header
from logbus.records.file_slice import joined
from logbus.records.header import PREFIX_SIZE, patched_prefix
from logbus.records.record import Record
from logbus.wire.connection import ServerConnection
from logbus.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from logbus.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from logbus.wire.messages.records import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    PartitionData,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

SERVED = {0: (3, 11), 1: (4, 12), 2: (1, 7), 3: (1, 12), 18: (0, 4), 19: (2, 7), 20: (1, 6), 37: (0, 3), 60: (0, 0)}


@define(eq=False)
class Log:
    """
    One partition.

    :ivar aborted: producer id and first offset of aborted transactions.
    :ivar open_since: where a transaction begins that is still open.
    """

    leader: int = 1
    start: int = 0
    end: int = 0
    batches: list[bytes] = field(factory=list)
    aborted: list[tuple[int, int]] = field(factory=list)
    open_since: int | None = None

    def end_for(self, isolation_level: int) -> int:
        """Where readers of an isolation level find the end."""
        return self.end if self.open_since is None or not isolation_level else self.open_since

    def append(self, data: bytes) -> int:
        """Store a batch; returns the offset it got."""
        base = self.end
        batch = patched_prefix(read_header(data), base, 0) + data[PREFIX_SIZE:]
        self.end = read_header(batch).next_offset
        self.batches.append(batch)
        return base

    def put(self, *values: bytes, **options: Any) -> int:
        """Store a batch of records with these values, a millisecond apart."""
        records = [Record(0, 1000 + self.end + i, None, value) for i, value in enumerate(values)]
        return self.append(encode_batch(records, **options))


@define(eq=False)
class MemoryCluster:
    """
    Brokers at ``b1:9092`` and so on.

    :ivar answers: handlers by API key that come before the built-in ones; each is given the broker's id and the
        request, and returns a response, or None to leave it to the built-in one.
    :ivar seen: the requests, by name.
    :ivar served: the versions the brokers speak, by API key.
    :ivar deliver: passes on an answer: called with the connection (``heard`` takes bytes, ``break_off`` ends it), the
        request's API key, and the frame.
    """

    clock: Clock = field(factory=Clock)
    nodes: set[int] = field(factory=lambda: {1})
    topics: dict[str, dict[int, Log]] = field(factory=dict)
    answers: dict[int, Callable[[int, Any], Any]] = field(factory=dict)
    served: dict[int, tuple[int, int]] = field(factory=lambda: dict(SERVED))
    produce_errors: list[int] = field(factory=list)
    deliver: Callable[[_Connection, int, bytes], None] = field(default=lambda to, key, frame: to.heard(frame))
    seen: list[tuple[int, str, Any]] = field(factory=list)
    connections: list[_Connection] = field(factory=list)

    def add(self, name: str, *leaders: int) -> dict[int, Log]:
        """A topic with a partition for each leader given."""
        self.topics[name] = {index: Log(leader) for index, leader in enumerate(leaders or (1,))}
        return self.topics[name]

    def endpoint(self, host: str, port: int) -> Any:
        """Where a broker is reached."""
        return _Endpoint(self, int(host[1:]))

    def settle(self, seconds: float = 0.0) -> None:
        """Let time pass, and everything happen that is due."""
        self.clock.advance(seconds)
        for _ in range(200):
            due = [each for each in self.clock.getDelayedCalls() if each.getTime() <= self.clock.seconds()]
            if not due:
                return
            self.clock.advance(0)

    def drop(self, node: int) -> None:
        """Every connection to a broker breaks."""
        for each in [each for each in self.connections if each.node == node]:
            each.break_off()

    def requests(self, name: str) -> list[Any]:
        """The requests of an API, in order."""
        return [message for _, each, message in self.seen if each == name]

    def serve(self, node: int, key: int, message: Any) -> Any:
        """Answer a request."""
        self.seen.append((node, type(message).__name__.removesuffix("Request"), message))
        if key in self.answers:
            answer = self.answers[key](node, message)
            if answer is not None:
                return answer
        return {0: self._produce, 1: self._fetch, 2: self._offsets, 3: self._metadata, 18: self._versions}[key](
            node, message
        )

    def _versions(self, node: int, message: Any) -> Any:
        keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.served.items()]
        return ApiVersionsResponse(api_keys=keys)

    def _metadata(self, node: int, message: Any) -> Any:
        names = list(self.topics) if message.topics is None else [each.name for each in message.topics]
        topics = []
        for name in names:
            if name not in self.topics:
                topics.append(MetadataResponseTopic(error_code=3, name=name, partitions=[]))
                continue
            partitions = [
                MetadataResponsePartition(
                    partition_index=index, leader_id=log.leader, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
                )
                for index, log in self.topics[name].items()
            ]
            topic_id = uuid.uuid5(uuid.NAMESPACE_DNS, name).bytes
            topics.append(MetadataResponseTopic(name=name, topic_id=topic_id, partitions=partitions))
        brokers = [MetadataResponseBroker(node_id=each, host=f"b{each}", port=9092) for each in sorted(self.nodes)]
        return MetadataResponse(brokers=brokers, cluster_id="memory", controller_id=min(self.nodes), topics=topics)

    def _log(self, node: int, partition: TopicPartition) -> tuple[int, Log]:
        log = self.topics.get(partition.topic, {}).get(partition.partition)
        if log is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Log()
        return (0 if log.leader == node else ErrorCode.NOT_LEADER_OR_FOLLOWER), log

    def _name(self, name: str, topic_id: bytes) -> str:
        """Newer requests name topics by their ids only."""
        ids = {uuid.uuid5(uuid.NAMESPACE_DNS, each).bytes: each for each in self.topics}
        return name or ids[topic_id]

    def _produce(self, node: int, message: Any) -> Any:
        responses = []
        for topic in message.topic_data:
            partitions = []
            for each in topic.partition_data:
                code, log = self._log(node, TopicPartition(self._name(topic.name, topic.topic_id), each.index))
                code = code or (self.produce_errors.pop(0) if self.produce_errors else 0)
                base = -1 if code else log.append(bytes(each.records))
                partitions.append(PartitionProduceResponse(index=each.index, error_code=code, base_offset=base))
            responses.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)
            )
        return None if message.acks == 0 else ProduceResponse(responses=responses)

    def _fetch(self, node: int, message: Any) -> Any:
        responses, found = [], False
        for topic in message.topics:
            partitions = []
            for each in topic.partitions:
                code, log = self._log(node, TopicPartition(self._name(topic.topic, topic.topic_id), each.partition))
                if not code and not log.start <= each.fetch_offset <= log.end:
                    code = ErrorCode.OFFSET_OUT_OF_RANGE
                headers = [] if code else [(read_header(b), b) for b in log.batches]
                end = log.end_for(message.isolation_level)
                batches = [b for h, b in headers if each.fetch_offset < h.next_offset <= end]
                found = found or bool(code or batches)
                partitions.append(
                    PartitionData(
                        partition_index=each.partition,
                        error_code=code,
                        high_watermark=log.end,
                        last_stable_offset=log.end_for(1),
                        aborted_transactions=[
                            AbortedTransaction(producer_id=producer_id, first_offset=first)
                            for producer_id, first in log.aborted
                        ]
                        if message.isolation_level
                        else None,
                        records=b"".join(batches[:1]),
                    )
                )
            responses.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions))
        answer = FetchResponse(responses=responses)
        if found:
            return answer
        later: Deferred[Any] = Deferred()
        self.clock.callLater(message.max_wait_ms / 1000, lambda: later.callback(answer))
        return later

    def _offsets(self, node: int, message: Any) -> Any:
        topics = []
        for topic in message.topics:
            partitions = []
            for each in topic.partitions:
                code, log = self._log(node, TopicPartition(topic.name, each.partition_index))
                offset = {-1: log.end_for(message.isolation_level), -2: log.start}.get(each.timestamp)
                if offset is None:
                    offset = each.timestamp - 1000 if each.timestamp - 1000 < log.end else -1
                partitions.append(
                    ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=code, offset=offset)
                )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(topics=topics)


@implementer(IStreamClientEndpoint)
@define(eq=False)
class _Endpoint:
    cluster: MemoryCluster
    node: int

    def connect(self, factory: Any) -> Deferred[Any]:
        if self.node not in self.cluster.nodes:
            return fail(ConnectionRefusedError())
        connection = _Connection(self.cluster, self.node)
        self.cluster.connections.append(connection)
        connection.client = factory.buildProtocol(None)
        connection.client.makeConnection(connection)
        return succeed(connection.client)


class _Connection(StringTransport):
    """Both ends of a connection: what the client writes is served, and answered in order on the next turn."""

    def __init__(self, cluster: MemoryCluster, node: int) -> None:
        super().__init__()
        self.cluster, self.node, self.client = cluster, node, None
        self._server = ServerConnection(cluster.served)
        self._data = b""
        self._broken = False

    def write(self, data: bytes) -> None:
        self._data += data
        self.cluster.clock.callLater(0, self._serve)

    def _serve(self) -> None:
        while len(self._data) >= 4 and not self._broken:
            (length,) = struct.unpack_from(">i", self._data)
            frame, self._data = self._data[4 : 4 + length], self._data[4 + length :]
            request = self._server.receive(frame)
            answer = self.cluster.serve(self.node, request.api_key, request.message)
            if isinstance(answer, Deferred):
                answer.addCallback(lambda message, request=request: self._answer(request, message))
            elif answer is not None:
                self._answer(request, answer)

    def _answer(self, request: Any, message: Any) -> None:
        if not self._broken:
            self.cluster.deliver(self, request.api_key, joined(self._server.respond(request, message)))

    def heard(self, data: bytes) -> None:
        """The client receives this, unless the connection is gone."""
        if not self._broken:
            self.client.dataReceived(data)

    def break_off(self) -> None:
        if not self._broken:
            self._broken = True
            self.cluster.connections.remove(self)
            self.client.connectionLost(Failure(ConnectionDone()))

    def loseConnection(self, *args: object) -> None:
        self.cluster.clock.callLater(0, self.break_off)

    abortConnection = loseConnection
