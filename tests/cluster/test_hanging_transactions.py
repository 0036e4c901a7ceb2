"""A client aborts a transaction in one partition: its coordinator may be on another broker."""

from __future__ import annotations

from logbus.coordination.transactions.transaction_metadata import ProducerIdAndEpoch
from logbus.errors import ErrorCode
from logbus.wire.messages.partitions import TopicPartitionIndexes
from logbus.wire.messages.transactions import WritableTxnMarker, WriteTxnMarkersRequest
from tests.cluster.test_transaction_coordinators import CoordinatorCase
from tests.handlers.kit import NOW_MS, a_batch

NOBODY = ProducerIdAndEpoch(4711, 0)


class HangingTests(CoordinatorCase):
    """Three brokers, one of which coordinates; partition n of ``t`` is led by broker n."""

    def mark(self, partition: int, producer: ProducerIdAndEpoch) -> int:
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=False,
            topics=[TopicPartitionIndexes(name="t", partition_indexes=[partition])],
            coordinator_epoch=0,
        )
        (found,) = self.ask(partition, WriteTxnMarkersRequest(markers=[marker]), 1, 60).markers
        return int(found.topics[0].partitions[0].error_code)

    def hang(self, partition: int, producer: ProducerIdAndEpoch) -> None:
        """Write a record of a transaction past its coordinator."""
        batch = a_batch(
            producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=0, transactional=True
        )
        self.cluster[partition].broker.replication.replicas.get("t", partition).append(batch, NOW_MS)

    def test_from_anywhere(self) -> None:
        """Every leader finds out whether a coordinator knows of the transaction."""
        self.add([0, 1])
        self.write(partitions=[0, 1])
        self.hang(2, self.producer)
        for partition in (0, 1):
            self.assertEqual(self.mark(partition, self.producer), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            self.hang(partition, NOBODY)
            self.assertEqual(self.mark(partition, NOBODY), 0)
        self.assertEqual(self.mark(2, self.producer), 0)

    def test_out_of_reach(self) -> None:
        """As long as the coordinator cannot be asked nothing is aborted."""
        coordinator = self.coordinator
        other = next(number for number in range(3) if number != coordinator)
        self.hang(other, NOBODY)
        self.cluster.cut(other, coordinator)
        end = self.cluster[other].broker.replication.replicas.get("t", other).log.log_end_offset
        self.assertEqual(self.mark(other, NOBODY), ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.assertEqual(self.cluster[other].broker.replication.replicas.get("t", other).log.log_end_offset, end)
        self.cluster.mend()
        self.cluster.settle(2)
        self.assertEqual(self.mark(other, NOBODY), 0)
