"""Produce: outcomes of single batches, and acknowledgements."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from logbus.cluster.replication.replica import Replica
from logbus.config import TopicConfig
from logbus.errors import ApiError, ErrorCode
from logbus.testing.simulation.environment.memory_disk import IOPool, broken
from logbus.wire.messages.metadata import MetadataRequest
from logbus.wire.messages.records import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.handlers.kit import HandlerCase, a_batch, content, produce_request


class DurableProduceTests(HandlerCase):
    """Produce that waits for the disk."""

    config = {"log.flush.before.ack": "true"}

    def hold(self) -> None:
        self.disk.held.add(IOPool.SYNC)

    def release(self) -> None:
        self.disk.held.clear()
        self.disk.release(IOPool.SYNC)
        self.client.turn()

    def test_acks_all_waits(self) -> None:
        """With acks=-1 the answer comes when the records are on stable storage; with acks=1 it does not wait."""
        self.hold()
        self.client.send(produce_request(a_batch(b"a"), acks=1), 9)
        self.assertEqual(len(self.client.answers()), 1)
        self.client.send(produce_request(a_batch(b"b"), acks=-1), 9)
        self.client.turn(0.5)
        self.assertEqual(self.client.answers(), [])
        self.release()
        (answer,) = self.client.answers()
        self.assertEqual(answer.responses[0].partition_responses[0].base_offset, 1)

    def test_answers_in_order(self) -> None:
        """Later requests run while a produce waits; their answers wait for its."""
        self.hold()
        self.client.send(produce_request(a_batch(b"a"), acks=-1), 9)
        self.client.send(produce_request(a_batch(b"b"), partition=1, acks=1), 9)
        self.client.send(MetadataRequest(topics=[]), 9)
        self.assertEqual(self.client.answers(), [])
        self.assertEqual(self.server.broker.replication.replicas.get("t", 1).log.log_end_offset, 1)
        self.release()
        kinds = [type(answer).__name__ for answer in self.client.answers()]
        self.assertEqual(kinds, ["ProduceResponse", "ProduceResponse", "MetadataResponse"])

    def test_timeout(self) -> None:
        """Records that are not durable in the request's time are REQUEST_TIMED_OUT, and are there all the same."""
        # Version 8 takes the way of requests for several partitions.
        for version in (8, 9):
            self.hold()
            self.client.send(produce_request(a_batch(b"a%d" % version), acks=-1), version)
            self.client.turn(1.1)
            (answer,) = self.client.answers()
            partition = answer.responses[0].partition_responses[0]
            self.assertEqual((partition.error_code, partition.base_offset), (ErrorCode.REQUEST_TIMED_OUT, -1))
            self.release()
            self.assertIn(b"a%d" % version, content(self.client.fetch()))

    def several(self, *waits: Deferred[None] | None, timeout_ms: int = 1000) -> list[Any]:
        """Send a batch to each partition, which becomes durable as these say; all responses there are until later."""
        self.patch(Replica, "durable", lambda replica: waits[replica.topic_partition.partition])
        data = [PartitionProduceData(index=n, records=a_batch(b"v")) for n in range(2)]
        topics = [TopicProduceData(name="t", partition_data=data)]
        self.client.send(ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=topics), 9)
        return self.client.answers()

    def outcomes(self) -> list[tuple[int, int]]:
        (answer,) = self.client.answers()
        return [(one.error_code, one.base_offset) for one in answer.responses[0].partition_responses]

    def test_some_in_time(self) -> None:
        """Of several batches those that are durable in time are acknowledged, whichever came first."""
        for first in range(2):
            waits: list[Deferred[None]] = [Deferred(), Deferred()]
            self.assertEqual(self.several(*waits), [])
            self.client.turn(0.9)
            waits[first].callback(None)
            self.assertEqual(self.client.answers(), [])
            self.client.turn(0.2)
            expected = [(0, first), (ErrorCode.REQUEST_TIMED_OUT, -1)]
            self.assertEqual(self.outcomes(), expected if not first else expected[::-1])

    def test_some_fail(self) -> None:
        """Each of several batches has its own error; the response comes when all have ended."""
        waits: list[Deferred[None]] = [Deferred(), Deferred()]
        self.several(*waits)
        waits[0].errback(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved"))
        self.assertEqual(self.client.answers(), [])
        waits[1].callback(None)
        self.assertEqual(self.outcomes(), [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), (0, 0)])

    def test_some_durable_at_once(self) -> None:
        """One that need not wait, or has just become durable, does not hold the others up."""
        done: Deferred[None] = Deferred()
        done.callback(None)
        self.assertEqual(len(self.several(None, done)), 1)

    def test_disconnected_while_several_wait(self) -> None:
        """Waits of a client that went away are given up; that is no failure."""
        waits: list[Deferred[None]] = [Deferred(), Deferred()]
        self.several(*waits)
        self.client.transport.loseConnection()
        self.client.turn(2)
        for wait in waits:
            wait.callback(None)  # Nobody listens, or it was cancelled.
        self.assertEqual(self.server.broker.kafka_server.net_metrics.failures, 0)

    def test_a_wait_that_fails_unexpectedly(self) -> None:
        """A mistake of ours closes the connection, and is logged once; nothing is acknowledged."""
        waits: list[Deferred[None]] = [Deferred(), Deferred()]
        self.several(*waits)
        waits[0].errback(ZeroDivisionError())
        self.assertEqual(self.client.answers(), [])
        self.assertTrue(self.client.closed)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_failed_sync(self) -> None:
        """Records are not acknowledged when the sync fails."""
        self.hold()
        for version in (8, 9):
            self.client.send(produce_request(a_batch(b"a"), acks=-1), version)
        self.disk.faults = lambda op, path: broken() if op == "sync" else None
        self.release()
        codes = [answer.responses[0].partition_responses[0].error_code for answer in self.client.answers()]
        self.assertEqual(codes, 2 * [ErrorCode.KAFKA_STORAGE_ERROR])

    def test_disconnected_client(self) -> None:
        """A produce whose client went away is written, and its end is no failure."""
        self.hold()
        self.client.send(produce_request(a_batch(b"kept"), acks=-1), 9)
        self.client.transport.loseConnection()
        self.release()
        self.assertEqual(self.server.broker.kafka_server.net_metrics.failures, 0)
        self.assertIn(b"kept", content(self.server.connect().fetch()))


class ResponseTests(HandlerCase):
    """Responses."""

    def test_errors_per_partition(self) -> None:
        """The response has all partitions, in the order of the request, each with its own error."""
        data = [PartitionProduceData(index=n, records=a_batch(b"v")) for n in (1, 7, 0)]
        topics = [
            TopicProduceData(name="t", partition_data=data),
            TopicProduceData(name="none", partition_data=data[:1]),
        ]
        response = self.client.ask(ProduceRequest(acks=-1, timeout_ms=10, topic_data=topics), 9)
        outcomes = [(t.name, p.index, p.error_code) for t in response.responses for p in t.partition_responses]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.assertEqual(outcomes, [("t", 1, 0), ("t", 7, unknown), ("t", 0, 0), ("none", 1, unknown)])

    def test_counted(self) -> None:
        """Records, batches, bytes and refusals are counted."""
        self.client.produce(a_batch(b"a", b"b"))
        self.client.produce(b"nonsense")
        appender = self.server.broker.kafka_server.produce_appender
        self.assertEqual((appender.records, appender.batches, appender.refused), (2, 1, 1))
        self.assertEqual(appender.bytes_written, len(a_batch(b"a", b"b")))

    def test_a_mistake_of_ours(self) -> None:
        """An unexpected exception is UNKNOWN_SERVER_ERROR for its partition, and is logged."""
        log = self.server.broker.replication.replicas.get("t", 0).log
        log.config = None  # type: ignore[assignment]
        self.assertEqual(self.client.produce().error_code, ErrorCode.UNKNOWN_SERVER_ERROR)
        self.assertEqual(len(self.flushLoggedErrors()), 1)
        self.assertEqual(self.client.produce(partition=1).error_code, 0)
        log.config = TopicConfig()

    def test_every_version(self) -> None:
        """All versions of Produce and Fetch write and read back, with what each can say."""
        for version in range(3, 12):
            answer = self.client.produce(a_batch(b"%d" % version), version=version)
            self.assertEqual((answer.error_code, answer.base_offset), (0, version - 3))
            self.assertEqual(answer.log_start_offset, 0 if version >= 5 else -1)
        for version in range(4, 18):
            answer = self.client.fetch(3, version=version)
            self.assertEqual((answer.error_code, answer.high_watermark), (0, 9))
            self.assertIn(b"6", content(answer))
