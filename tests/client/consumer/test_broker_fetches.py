"""Errors and leader hints in responses to fetches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.consumer.fetch_options import FetchOptions
from logbus.client.consumer.fetcher import Fetcher
from logbus.client.list_offsets import EARLIEST, LATEST
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.wire.messages.records import (
    EpochAndEndOffset,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
    PartitionData,
)
from tests.client.memory_cluster import Log, MemoryCluster

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def said(message: Any, **data: Any) -> FetchResponse:
    """An answer that says the same of each partition that a fetch names."""
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(partition_index=each.partition, **{"high_watermark": 9, "records": b"", **data})
                    for each in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


class BrokerFetchesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.brokers = MemoryCluster(nodes={1, 2})
        self.cluster = Cluster(self.brokers.clock, "b1:9092,b2:9092", endpoint=self.brokers.endpoint)
        self.log = self.brokers.add("t")[0]
        for value in (b"a", b"b", b"c"):
            self.log.put(value)

    def fetcher(self, position: Any = EARLIEST, **options: Any) -> Fetcher:
        fetcher = Fetcher(self.cluster, FetchOptions(**options))
        self.addCleanup(fetcher.close)
        fetcher.assign({P0: position})
        return fetcher

    def read(self, fetcher: Fetcher, count: int, seconds: float = 20.0) -> list[ConsumerRecord]:
        found: list[ConsumerRecord] = []

        async def read() -> None:
            while len(found) < count:
                found.extend((await fetcher.poll()).records)

        reading = Deferred.fromCoroutine(read())
        for _ in range(round(seconds * 20)):
            if reading.called:
                break
            self.brokers.settle(0.05)
        self.successResultOf(reading)
        return found

    def values(self, fetcher: Fetcher, count: int) -> list[bytes | None]:
        return [each.value for each in self.read(fetcher, count)]

    def answer(self, key: int, function: Callable[[int, Any], Any]) -> None:
        self.brokers.answers[key] = function

    def elsewhere(self, node: int, message: Any) -> FetchResponse | None:
        """Broker 1 says that broker 2 leads, and where it is."""
        if node != 1:
            return None
        answer = said(
            message,
            error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=4),
        )
        answer.node_endpoints = [NodeEndpoint(node_id=2, host="b2", port=9092)]
        return answer

    def test_hints(self) -> None:
        """The new leader named by the old one is used without a metadata request (KIP-951)."""
        self.brokers.served[1] = (4, 16)
        self.brokers.served[3] = (1, 12)
        fetcher = self.fetcher()
        self.read(fetcher, 3)
        asked = len(self.brokers.requests("Metadata"))
        self.log.leader = 2
        self.answer(1, self.elsewhere)
        self.log.put(b"d")
        began = self.brokers.clock.seconds()
        self.assertEqual(self.values(fetcher, 1), [b"d"])
        self.assertLess(self.brokers.clock.seconds() - began, 0.6)
        self.assertEqual(len(self.brokers.requests("Metadata")), asked)
        self.assertEqual(self.brokers.requests("Fetch")[-1].topics[0].partitions[0].current_leader_epoch, 4)

    def test_wrong_leader_hints(self) -> None:
        """Wrong hints are followed with a delay."""
        self.brokers.served[1] = (4, 16)
        epoch = iter(range(1, 10_000_000))

        def around(node: int, message: Any) -> FetchResponse:
            answer = self.elsewhere(1, message)
            assert answer is not None
            for topic in answer.responses:
                for each in topic.partitions:
                    each.current_leader = LeaderIdAndEpoch(leader_id=3 - node, leader_epoch=next(epoch))
            return answer

        self.answer(1, around)
        fetcher = self.fetcher()
        fetcher.poll().addErrback(lambda failure: None)
        for _ in range(100):
            self.brokers.settle(0.1)
        self.assertLess(len(self.brokers.requests("Fetch")), 100)

    def test_frequent_leader_changes(self) -> None:
        """Records arrive, each once, in order, and soon."""
        fetcher = self.fetcher()
        found = self.read(fetcher, 3)
        for turn in range(20):
            self.log.leader = 1 + turn % 2
            if turn % 3 == 0:
                self.brokers.drop(2 - turn % 2)
            self.log.put(b"%d" % turn)
            found += self.read(fetcher, 1, 3.0)
            self.brokers.settle(0.5)
        self.assertEqual([each.offset for each in found], list(range(23)))

    def test_closed_connections(self) -> None:
        """The broker is asked again, with growing pauses."""

        def hang_up(node: int, message: Any) -> Any:
            self.brokers.clock.callLater(0, self.brokers.drop, node)
            return Deferred()

        self.answer(1, hang_up)
        fetcher = self.fetcher()
        fetcher.poll().addErrback(lambda failure: None)
        for _ in range(200):
            self.brokers.settle(0.1)
        self.assertLess(len(self.brokers.requests("Fetch")), 40)
        del self.brokers.answers[1]
        self.assertEqual(self.values(self.fetcher(), 3), [b"a", b"b", b"c"])

    def test_one_fetch_per_broker(self) -> None:
        """However often one polls and seeks, at most one fetch is under way to a broker."""
        self.brokers.add("u", 1, 1)
        waiting: list[Deferred[Any]] = []
        most = 0

        def hold(node: int, message: Any) -> Any:
            nonlocal most
            waiting.append(later := Deferred())
            most = max(most, len(waiting))
            later.addCallback(lambda _: said(message))
            return later

        self.answer(1, hold)
        fetcher = self.fetcher()
        for turn in range(30):
            polling = fetcher.poll()
            self.brokers.settle(0.1)
            polling.addErrback(lambda failure: None)
            polling.cancel()
            fetcher.seek(P0, turn % 3)
            fetcher.add({TopicPartition("u", turn % 2): 0})
            if turn % 4 == 3:
                waiting.pop().callback(None)
        self.assertEqual(most, 1)

    def test_truncated_log(self) -> None:
        """
        If the leader reports a different log, reading continues where it diverged; with ``none`` that is an error
        (KIP-320).
        """

        def diverging(node: int, message: Any) -> Any:
            (each,) = message.topics[0].partitions
            if each.fetch_offset == 3 and each.last_fetched_epoch == 0:
                return said(message, diverging_epoch=EpochAndEndOffset(epoch=0, end_offset=1))
            return None

        self.answer(1, diverging)
        fetcher = self.fetcher()
        self.assertEqual(self.values(fetcher, 5), [b"a", b"b", b"c", b"b", b"c"])

        fetcher.close()
        strict = self.fetcher(0, reset="none")
        self.read(strict, 3)
        waiting = strict.poll()
        self.brokers.settle(0.2)
        error = self.failureResultOf(waiting, ApiError).value
        self.assertIs(error.code, ErrorCode.OFFSET_OUT_OF_RANGE)
        self.assertIn("t-0 was cut off at offset 1", str(error))
        self.assertEqual(strict.assigned.position(P0), 3)

    def test_truncated_log_at_older_brokers(self) -> None:
        """They are asked for the end of the epoch, once for each epoch of the leader."""
        self.brokers.served.update({1: (4, 11), 23: (0, 3)})
        asked: list[tuple[int, int]] = []

        def ended(node: int, message: Any) -> Any:
            (each,) = message.topics[0].partitions
            asked.append((each.current_leader_epoch, each.leader_epoch))
            end = EpochEndOffset(partition=0, leader_epoch=0, end_offset=2)
            return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])])

        self.answer(23, ended)
        fetcher = self.fetcher()
        self.assertEqual(self.values(fetcher, 3), [b"a", b"b", b"c"])
        self.cluster.update_leader(P0, 1, 1)
        self.assertEqual(self.values(fetcher, 1), [b"c"])
        self.assertEqual(fetcher.assigned.position(P0), 3)
        self.assertEqual(asked, [(0, 0), (1, 0)])

    def test_a_seek_behind_the_check_of_an_older_broker(self) -> None:
        """A partition that has moved since its log was found to be cut off stays where it was moved to."""
        self.brokers.served.update({1: (4, 11), 23: (0, 3)})
        self.brokers.topics["t"][1] = Log()
        checked: list[int] = []

        def ended(node: int, message: Any) -> Any:
            (each,) = message.topics[0].partitions
            checked.append(each.current_leader_epoch)
            end = EpochEndOffset(partition=0, leader_epoch=0, end_offset=2 if each.current_leader_epoch else 3)
            return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])])

        self.answer(23, ended)
        fetcher = self.fetcher()
        fetcher.add({P1: 0})
        self.assertEqual(self.values(fetcher, 3), [b"a", b"b", b"c"])
        self.cluster.update_leader(P0, 1, 1)
        while not any(checked):
            self.brokers.settle(0.01)
        # The fetch of the other partition waits for records.
        fetcher.seek(P0, LATEST)
        self.brokers.settle(1)
        self.log.put(b"d")
        self.assertEqual(self.values(fetcher, 1), [b"d"])

    def test_an_epoch_the_leader_has_forgotten(self) -> None:
        """
        It refuses the offset for that; without the epoch it finds it, and nothing is reset.
        """

        def forgotten(node: int, message: Any) -> Any:
            (each,) = message.topics[0].partitions
            if each.last_fetched_epoch == 0:
                return said(message, error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE))
            return None

        self.answer(1, forgotten)
        fetcher = self.fetcher(reset="none")
        found = self.read(fetcher, 3)
        self.log.put(b"d")
        found += self.read(fetcher, 1)
        self.assertEqual([each.offset for each in found], [0, 1, 2, 3])

    def test_a_replica_nearby(self) -> None:
        """
        It is read from when the leader names it; what it does not have the leader is asked for again, and nothing is
        reset (KIP-392).
        """
        self.brokers.served[1] = (4, 11)
        lagging = False

        def near(node: int, message: Any) -> Any:
            if node == 1 and message.rack_id == "east":
                return None if lagging else said(message, preferred_read_replica=2)
            if node == 2 and lagging:
                return said(message, error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE))
            self.log.leader = 2
            answer = self.brokers._fetch(2, message)
            self.log.leader = 1
            return answer

        self.answer(1, near)
        fetcher = self.fetcher(rack="east", reset="none")
        self.assertEqual(self.values(fetcher, 3), [b"a", b"b", b"c"])
        asked = [node for node, name, _ in self.brokers.seen if name == "Fetch"]
        self.assertEqual((asked[0], set(asked[1:])), (1, {2}))
        lagging = True
        self.log.put(b"d")
        self.assertEqual(self.values(fetcher, 1), [b"d"])

    def test_lost_session(self) -> None:
        """A new session begins, and no record is missed."""
        lost = iter([ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])

        def lose(node: int, message: Any) -> Any:
            code = next(lost, None) if message.topics and message.topics[0].partitions[0].fetch_offset else None
            return None if code is None else FetchResponse(error_code=int(code), responses=[])

        self.answer(1, lose)
        self.assertEqual(self.values(self.fetcher(), 3), [b"a", b"b", b"c"])

    def test_errors_of_the_whole_fetch(self) -> None:
        """Errors that retrying does not help are raised to the caller."""
        self.answer(1, lambda node, message: FetchResponse(error_code=31, responses=[]))
        waiting = self.fetcher().poll()
        self.brokers.settle(0.2)
        self.assertIs(self.failureResultOf(waiting, ApiError).value.code, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def test_answers_to_questions_of_the_past(self) -> None:
        """A response to a fetch from before a seek is dropped."""
        held: list[Deferred[Any]] = []

        def hold(node: int, message: Any) -> Any:
            if held:
                return None
            held.append(later := Deferred())
            later.addCallback(lambda _: self.brokers._fetch(node, message))
            return later

        self.answer(1, hold)
        fetcher = self.fetcher()
        polling = fetcher.poll()
        self.brokers.settle(0.1)
        fetcher.seek(P0, 2)
        held[0].callback(None)
        self.brokers.settle(0.1)
        self.assertEqual([each.value for each in self.successResultOf(polling).records], [b"c"])

    def test_failing_partition(self) -> None:
        """
        Metadata of a partition without a leader are asked for from time to time; other partitions are read meanwhile.
        """
        logs = self.brokers.add("t", 1, -1)
        fetcher = self.fetcher()
        fetcher.add({P1: EARLIEST})
        for turn in range(20):
            logs[0].put(b"%d" % turn)
            self.assertEqual(self.values(fetcher, 1), [b"%d" % turn])
        logs[1].leader = 2
        logs[1].put(b"back")
        self.assertEqual(self.values(fetcher, 1), [b"back"])
