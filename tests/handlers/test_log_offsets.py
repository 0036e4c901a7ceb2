"""ListOffsets and DeleteRecords."""

from __future__ import annotations

from typing import Any

from logbus.errors import ErrorCode
from logbus.model import LeaderAndIsr
from logbus.wire.messages.records import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from logbus.wire.messages.topics import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.handlers.kit import NOW_MS, HandlerCase, a_batch


class ListOffsetsTests(HandlerCase):
    """ListOffsets."""

    def ask(self, timestamp: int, version: int, replica_id: int = -1, **given: Any) -> Any:
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, **given)
        request = ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name="t", partitions=[asked])])
        return self.client.ask(request, version).topics[0].partitions[0]

    def test_every_version(self) -> None:
        """The end and the start of a log, at each version."""
        self.client.produce(a_batch(b"a", b"b"))
        for version in range(1, 12):
            self.assertEqual([self.ask(at, version).offset for at in (-1, -2)], [2, 0])
        self.assertEqual(self.ask(-1, 0, max_num_offsets=5).old_style_offsets, [2, 0])
        self.assertEqual(self.ask(-2, 0, max_num_offsets=5).old_style_offsets, [0])
        self.assertEqual(self.ask(-1, 0, max_num_offsets=-5).old_style_offsets, [])

    def test_epoch_of_an_empty_log(self) -> None:
        """The start of an empty log has the leader's epoch, as its end has: that of the next record."""
        self.assertEqual([self.ask(at, 8).leader_epoch for at in (-1, -2, -4)], [0, 0, 0])

    def test_special_times(self) -> None:
        """Special timestamps: local start, tiered end, and undefined ones."""
        self.client.produce()
        self.assertEqual(self.ask(-4, 8).offset, 0)
        self.assertEqual(self.ask(-5, 9).offset, -1)
        for timestamp in (-6, -(2**63)):
            self.assertEqual(self.ask(timestamp, 9).error_code, ErrorCode.UNSUPPORTED_VERSION)

    def test_replica_ids_are_refused(self) -> None:
        """Clients may not send a replica id (CVE-2018-1288)."""
        self.assertEqual(self.ask(-1, 5, replica_id=2).error_code, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def test_committed_records_only(self) -> None:
        """A lookup by time does not find records that another in-sync replica lacks."""
        self.client.produce()
        self.server.broker.replication.replicas.get("t", 0).take_role(
            LeaderAndIsr(leader=0, leader_epoch=1, isr=(0, 1))
        )
        self.client.produce(a_batch(timestamp=NOW_MS + 500))
        self.assertEqual([self.ask(at, 7).offset for at in (-1, NOW_MS, NOW_MS + 1, -3)], [1, 0, -1, -1])

    def delete(self, offset: int, partition: int = 0) -> tuple[int, int]:
        asked = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=asked)], timeout_ms=10)
        answer = self.client.ask(request, 2).topics[0].partitions[0]
        return answer.error_code, answer.low_watermark

    def test_records_are_deleted(self) -> None:
        """The new start is answered, is the earliest offset, and never goes back."""
        for _ in range(4):
            self.client.produce()
        self.assertEqual(self.delete(2), (0, 2))
        self.assertEqual(self.delete(1), (0, 2))
        self.assertEqual(self.client.fetch(1).error_code, ErrorCode.OFFSET_OUT_OF_RANGE)
        self.assertEqual(self.ask(-2, 5).offset, 2)
        self.assertEqual(self.delete(-1), (0, 4))
        self.assertEqual(self.delete(0, 9), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1))
        self.assertEqual(self.client.produce().base_offset, 4)
