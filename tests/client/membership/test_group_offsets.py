"""Commits and lookups of a group's offsets, at brokers with scripted responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.cluster.cluster import Cluster
from logbus.client.group_metadata import MOVED_ON, CommittedOffset
from logbus.client.membership import CommitFailed, GroupMetadata
from logbus.client.membership.group_offsets import GroupOffsets
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition
from logbus.wire.messages import groups, offsets
from logbus.wire.messages.partitions import PartitionErrorCode
from tests.client.memory_cluster import MemoryCluster

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
COMMIT, FETCH, FIND = 8, 9, 10
MEMBER = GroupMetadata("g", 3, "m", "i")


class OffsetsCase(SynchronousTestCase):
    """
    :ivar codes: for each request the error codes by partition; 0 when there are no more.
    :ivar place: the broker that coordinates.
    """

    def setUp(self) -> None:
        self.brokers = MemoryCluster(nodes={1, 2})
        self.brokers.served.update({COMMIT: (2, 10), FETCH: (1, 10), FIND: (0, 6)})
        self.brokers.answers[FIND] = self.find
        self.codes: list[dict[int, int]] = []
        self.place = 1
        self.cluster = Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint)
        self.offsets = GroupOffsets(self.cluster, "g", 5.0)

    def find(self, node: int, message: Any) -> Any:
        keys = message.coordinator_keys or [message.key]
        return groups.FindCoordinatorResponse(
            coordinators=[
                groups.Coordinator(key=key, node_id=self.place, host=f"b{self.place}", port=9092) for key in keys
            ]
        )

    def next_codes(self) -> dict[int, int]:
        return self.codes.pop(0) if self.codes else {}

    def done(self, waiting: Deferred[Any], seconds: float = 6.0) -> list[Any]:
        results: list[Any] = []
        waiting.addBoth(results.append)
        for _ in range(round(seconds * 20)):
            if results:
                break
            self.brokers.settle(0.05)
        return results

    def error(self, waiting: Deferred[Any], kind: type[LogbusError] = LogbusError) -> Any:
        (failure,) = self.done(waiting)
        assert isinstance(failure.value, kind), failure
        return failure.value


class CommitTests(OffsetsCase):
    """OffsetCommit."""

    def setUp(self) -> None:
        super().setUp()
        self.brokers.answers[COMMIT] = self.commit

    def commit(self, node: int, message: Any) -> Any:
        codes = self.next_codes()
        return offsets.OffsetCommitResponse(
            topics=[
                offsets.OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        PartitionErrorCode(
                            partition_index=each.partition_index, error_code=codes.get(each.partition_index, 0)
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in message.topics
            ]
        )

    def sent(self) -> Sequence[list[tuple[int, int]]]:
        """Partition and offset, of each request."""
        return [
            [(each.partition_index, each.committed_offset) for topic in message.topics for each in topic.partitions]
            for message in self.brokers.requests("OffsetCommit")
        ]

    def test_as_a_member(self) -> None:
        """The request has the member id and generation."""
        assert self.done(self.offsets.commit({P0: CommittedOffset(4, 2, "note")}, MEMBER)) == [None]
        (request,) = self.brokers.requests("OffsetCommit")
        assert request.generation_id_or_member_epoch == 3
        assert (request.member_id, request.group_instance_id) == ("m", "i")
        (committed,) = request.topics[0].partitions
        assert (committed.committed_offset, committed.committed_leader_epoch) == (4, 2)
        assert committed.committed_metadata == "note"

    def test_retriable_errors(self) -> None:
        """Only the partitions with the error are retried."""
        for code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            before = len(self.sent())
            self.codes = [{1: int(code)}]
            assert self.done(self.offsets.commit({P0: CommittedOffset(1), P1: CommittedOffset(2)})) == [None]
            assert self.sent()[before:] == [[(0, 1), (1, 2)], [(1, 2)]]

    def test_another_coordinator(self) -> None:
        """It is looked for when the broker says that it is another, or hangs up."""
        assert self.done(self.offsets.commit({P0: CommittedOffset(1)})) == [None]
        assert self.done(self.offsets.commit({P0: CommittedOffset(2)})) == [None]
        assert len(self.brokers.requests("FindCoordinator")) == 1
        self.codes, self.place = [{0: int(ErrorCode.NOT_COORDINATOR)}], 2
        assert self.done(self.offsets.commit({P0: CommittedOffset(3)})) == [None]
        assert [node for node, name, _ in self.brokers.seen if name == "OffsetCommit"] == [1, 1, 1, 2]
        self.brokers.drop(2)
        assert self.done(self.offsets.commit({P0: CommittedOffset(4)})) == [None]

    def test_unreachable_coordinator(self) -> None:
        """The commit fails after its timeout."""
        self.brokers.nodes.clear()
        self.error(self.offsets.commit({P0: CommittedOffset(1)}))

    def test_refused_commits(self) -> None:
        """At once, and with what was wrong of which partition."""
        advice = {
            ErrorCode.FENCED_INSTANCE_ID: "group_instance_id 'i'",
            ErrorCode.REBALANCE_IN_PROGRESS: "after on_assigned",
        }
        for code in sorted(MOVED_ON):
            self.codes = [{0: int(code), 1: int(code)}]
            error = self.error(
                self.offsets.commit({P0: CommittedOffset(1), P1: CommittedOffset(1)}, MEMBER), CommitFailed
            )
            assert error.code is code
            assert error.errors.keys() == {P0, P1}
            assert advice.get(code, "raise max_poll_interval") in str(error), error
            assert f"({code.name})" in str(error)
            assert "t-0, t-1" in str(error)

    def test_some_are_committed(self) -> None:
        """The error names the others."""
        self.codes = [{1: int(ErrorCode.OFFSET_METADATA_TOO_LARGE)}]
        error = self.error(self.offsets.commit({P0: CommittedOffset(1), P1: CommittedOffset(1)}), CommitFailed)
        assert error.errors.keys() == {P1}

    def test_later_commit_wins(self) -> None:
        """The retry of a commit does not overtake a later commit."""
        self.codes = [{0: int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)}]
        first = self.offsets.commit({P0: CommittedOffset(1)})
        second = self.offsets.commit({P0: CommittedOffset(2)})
        assert self.done(second) == [None]
        self.successResultOf(first)
        assert self.sent() == [[(0, 1)], [(0, 1)], [(0, 2)]]

    def test_cancelled_commit(self) -> None:
        """Whether it waits for its turn, for the broker, or for another attempt."""
        for turns in range(8):
            self.codes = [{0: int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)}]
            first, second = (self.offsets.commit({P0: CommittedOffset(each)}) for each in (1, 2))
            for _ in range(turns):
                self.brokers.clock.advance(0.01)
            second.cancel()
            first.cancel()
            first.addErrback(lambda _: None)
            second.addErrback(lambda _: None)
            self.codes = []
            assert self.done(self.offsets.commit({P0: CommittedOffset(3)})) == [None]

    def test_many(self) -> None:
        """Each request has room for a batch of the broker's."""
        wanted = {TopicPartition("t", number): CommittedOffset(number) for number in range(2500)}
        assert self.done(self.offsets.commit(wanted)) == [None]
        assert [len(each) for each in self.sent()] == [1000, 1000, 500]


class FetchTests(OffsetsCase):
    """OffsetFetch."""

    def setUp(self) -> None:
        super().setUp()
        self.brokers.answers[FETCH] = self.fetch
        self.held = {0: 7}
        self.whole = 0

    def fetch(self, node: int, message: Any) -> Any:
        codes = self.next_codes()

        def answers(kind: Any, topics: Any) -> list[Any]:
            return [
                kind(
                    name=topic.name,
                    partitions=[
                        offsets.OffsetFetchResponsePartition(
                            partition_index=each,
                            committed_offset=self.held.get(each, -1),
                            committed_leader_epoch=5,
                            error_code=codes.get(each, 0),
                        )
                        for each in topic.partition_indexes
                    ],
                )
                for topic in topics
            ]

        if message.groups:
            (group,) = message.groups
            found = answers(offsets.OffsetFetchResponseTopics, group.topics)
            whole, self.whole = self.whole, 0
            one = offsets.OffsetFetchResponseGroup(group_id="g", topics=found, error_code=whole)
            return offsets.OffsetFetchResponse(groups=[one])
        return offsets.OffsetFetchResponse(topics=answers(offsets.OffsetFetchResponseTopic, message.topics))

    def test_missing_offsets(self) -> None:
        """Partitions without an offset are None, in old and new versions."""
        for newest in (10, 7, 5):
            self.brokers.served[FETCH] = (1, newest)
            self.cluster = Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint)
            self.offsets = GroupOffsets(self.cluster, "g", 5.0)
            found = self.done(self.offsets.fetch([P0, P1], require_stable=True))
            assert found == [{P0: CommittedOffset(7, 5), P1: None}], (newest, found)
            request = self.brokers.requests("OffsetFetch")[-1]
            assert request.require_stable is (newest >= 7)

    def test_open_transactions_are_waited_for(self) -> None:
        """Only their partitions are asked for again."""
        self.codes = [{1: int(ErrorCode.UNSTABLE_OFFSET_COMMIT)}] * 2
        self.held[1] = 9
        found = self.done(self.offsets.fetch([P0, P1], require_stable=True))
        assert found == [{P0: CommittedOffset(7, 5), P1: CommittedOffset(9, 5)}]
        asked = [each.groups[0].topics[0].partition_indexes for each in self.brokers.requests("OffsetFetch")]
        assert asked == [[0, 1], [1], [1]]

    def test_open_transaction(self) -> None:
        """Its end is waited for only until the timeout."""
        self.codes = [{0: int(ErrorCode.UNSTABLE_OFFSET_COMMIT)}] * 1000
        error = self.error(self.offsets.fetch([P0], require_stable=True), ApiError)
        assert error.code is ErrorCode.UNSTABLE_OFFSET_COMMIT

    def test_an_error_of_the_group(self) -> None:
        """A retriable error is retried; another one is raised."""
        self.whole = int(ErrorCode.NOT_COORDINATOR)
        assert self.done(self.offsets.fetch([P0])) == [{P0: CommittedOffset(7, 5)}]
        assert len(self.brokers.requests("FindCoordinator")) == 2
        self.whole = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        error = self.error(self.offsets.fetch([P0]), ApiError)
        assert error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED

    def test_no_partitions(self) -> None:
        """Nothing is asked for nothing."""
        assert self.done(self.offsets.fetch([])) == [{}]
        assert self.brokers.requests("OffsetFetch") == []
