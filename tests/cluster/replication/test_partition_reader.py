"""What a read of one partition gives a consumer."""

from __future__ import annotations

from logbus.cluster.replication.partition_fetch import PartitionFetch
from logbus.errors import ErrorCode
from logbus.model import NO_EPOCH, LeaderAndIsr
from tests.cluster.replication.test_replica_reader import ReadCase


class ReadForConsumerTests(ReadCase):
    """Reads for consumers that have read before, and behind other partitions."""

    def test_divergence(self) -> None:
        """
        Whatever epoch and offset a client has last, the point of divergence is the one that the log's epochs tell.
        """
        replica = self.replicas.get("t", 0)
        leader, first = replica.partition.broker_id, replica.partition.leader_epoch
        for epoch in (first, first + 2):
            replica.take_role(LeaderAndIsr(leader, epoch, (leader,)))
            self.append()
            self.append()
        log = replica.log
        for epoch in range(first, first + 4):
            for offset in range(7):
                with self.subTest(epoch=epoch, offset=offset):
                    want = PartitionFetch("t", 0, offset, 1 << 20, last_fetched_epoch=epoch)
                    (got,) = self.fetch(want, wait=0)
                    ours = log.end_offset_for_epoch(epoch)
                    if ours.epoch == NO_EPOCH:
                        self.assertEqual(got.error.code, ErrorCode.OFFSET_OUT_OF_RANGE)
                    elif ours.epoch < epoch or ours.offset < offset:
                        self.assertEqual(got.diverging, ours)
                    else:
                        self.assertEqual((got.diverging, got.error), (None, None))

    def test_out_of_range_in_a_full_response(self) -> None:
        """A full answer still tells an offset that does not exist from the log's end."""
        self.append(0, 1000)
        self.append(1)
        got = self.fetch(
            PartitionFetch("t", 0, 0, 9999), PartitionFetch("t", 1, 1, 9999), PartitionFetch("t", 2, 5, 9999), most=10
        )
        self.assertEqual([bool(one.data) for one in got], [True, False, False])
        self.assertIsNone(got[1].error)
        self.assertEqual(got[2].error.code, ErrorCode.OFFSET_OUT_OF_RANGE)
