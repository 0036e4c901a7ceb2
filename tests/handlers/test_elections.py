"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments."""

from __future__ import annotations

from typing import Any

from logbus.errors import ErrorCode
from logbus.wire.messages.elections import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from logbus.wire.messages.partitions import TopicPartitionIndexes, TopicPartitions
from tests.handlers.kit import HandlerCase


class ElectionTests(HandlerCase):
    """A cluster of one, which has little to elect."""

    def elect(self, version: int, *partitions: int, kind: int = 0, topic: str = "t") -> Any:
        wanted = [TopicPartitions(topic=topic, partitions=list(partitions))] if partitions else None
        request = ElectLeadersRequest(topic_partitions=wanted, timeout_ms=1000)
        if version >= 1:
            request.election_type = kind
        return self.client.ask(request, version)

    def reassign(self, *given: tuple[int, list[int] | None], version: int = 0) -> Any:
        partitions = [ReassignablePartition(partition_index=number, replicas=replicas) for number, replicas in given]
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=partitions)])
        return self.client.ask(request, version)

    def test_preferred(self) -> None:
        """A preferred leader that leads already needs no election; for all partitions these are left out."""
        for version in (0, 1, 2):
            [topic] = self.elect(version, 0, 1, 7).replica_election_results
            codes = [(one.partition_id, one.error_code) for one in topic.partition_result]
            needless, unknown = ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self.assertEqual(codes, [(0, needless), (1, needless), (7, unknown)])
            self.assertEqual(self.elect(version).replica_election_results, [])

    def test_no_such_type(self) -> None:
        """An unknown type of election is an error of the whole request."""
        self.assertEqual(self.elect(2, 0, kind=2).error_code, ErrorCode.INVALID_REQUEST)
        self.assertEqual(self.elect(1, 0, kind=1).error_code, 0)

    def test_reassignments(self) -> None:
        """Each partition has its own answer."""
        response = self.reassign((0, [0]), (1, [5]), (7, [0]), (8, [0]), (8, [0]), version=1)
        [topic] = response.responses
        codes = {one.partition_index: one.error_code for one in topic.partitions}
        self.assertEqual(
            codes,
            {
                0: ErrorCode.NONE,
                1: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                8: ErrorCode.INVALID_REQUEST,
            },
        )
        self.assertEqual(response.error_code, 0)
        [topic] = self.reassign((0, None)).responses
        self.assertEqual(topic.partitions[0].error_code, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)

    def test_none_under_way(self) -> None:
        """There is nothing to list, whatever is asked for."""
        some = [TopicPartitionIndexes(name="x", partition_indexes=[0, 0, -1])]
        for topics in (None, [], some):
            response = self.client.ask(ListPartitionReassignmentsRequest(topics=topics), 0)
            self.assertEqual((response.error_code, response.topics), (0, []))
