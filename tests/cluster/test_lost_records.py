"""A broker that comes back without synced records: acknowledged records are still there, and are read."""

from __future__ import annotations

from twisted.logger import capturedLogs

from logbus.model import TopicPartition
from logbus.storage.log_manager import LogManager
from tests.cluster.test_replication import ReplicationCase

NAME = TopicPartition("t", 0)
RECORDS = 30


class LostRecordsTests(ReplicationCase):
    """Thirty records on three replicas, one of which loses a third of them, as by a disk that lies."""

    def setUp(self) -> None:
        super().setUp()
        self.create(min_insync_replicas="2")
        for number in range(RECORDS):
            self.assertEqual(self.produce(b"%d" % number).error_code, 0)
        self.cluster.settle(1)

    def shorten(self, broker_id: int) -> None:
        """Cut a dead broker's active segment to two thirds."""
        [disk] = self.cluster.disks[broker_id]
        path = max(f"t-0/{name}" for name in disk.names("t-0") if name.endswith(".log"))
        disk.open(path).truncate(disk.size(path) * 2 // 3)

    def nothing_lost(self, *brokers: int) -> None:
        """The leader has all records, they can be read, and more can be written."""
        self.cluster.settle(5)
        leader = self.leader()
        self.assertIn(leader, brokers)
        replica = self.cluster[leader].broker.replication.replicas.get("t", 0)
        self.assertEqual((replica.log.log_end_offset, replica.high_watermark), (RECORDS, RECORDS))
        self.assertEqual(self.produce(b"more").error_code, 0)
        self.cluster.settle(5)
        self.assertEqual(sorted(self.isr()), [0, 1, 2])
        self.all_equal()

    def restart_unseen(self, broker_id: int) -> None:
        """
        Kill a broker, shorten its log and start it again, so fast that the controller, which is another, never sees
        it gone.
        """
        watching = self.cluster[self.cluster.controller].broker.member.store
        watching.suspend()
        self.cluster.kill(broker_id)
        self.shorten(broker_id)
        self.cluster.boot(broker_id, wait=False)
        watching.resume()
        self.cluster.settle(1)

    def lead_with(self, broker_id: int) -> None:
        """Have a broker other than the controller lead."""
        self.ask_for_leader(broker_id)
        self.cluster.settle(1)
        self.assertEqual(self.leader(), broker_id)

    def ask_for_leader(self, broker_id: int) -> None:
        others = [one for one in self.cluster.alive if one != broker_id]
        admin = self.cluster[self.cluster.controller].broker.control.partition_admin
        self.cluster.now(admin.alter_reassignments({NAME: [broker_id, *others]}))
        self.cluster.settle(1)
        self.cluster.now(admin.balance(0))

    def test_a_leader(self) -> None:
        """It leads no more, though its restart was not seen: others have not stopped."""
        self.lead_with(1)
        self.restart_unseen(1)
        self.nothing_lost(0, 2)

    def test_loss_is_reported(self) -> None:
        """A log that ends below its own checkpoints is named, and counted."""
        self.lead_with(1)
        self.cluster.settle(70)
        with capturedLogs() as events:
            self.restart_unseen(1)
        said = [event for event in events if "by its checkpoints" in event["log_format"]]
        self.assertEqual([(event["partition"], event["committed"]) for event in said], [(NAME, RECORDS)])
        self.assertEqual(self.cluster[1].broker.logs.shortened, 1)
        self.nothing_lost(0, 2)

    def test_all_are_killed(self) -> None:
        """When all are back who may have the records, the one with the most leads."""
        for broker_id in (0, 1, 2):
            self.cluster.kill(broker_id)
        leader = 0
        self.shorten(leader)
        for broker_id in (0, 1):
            self.cluster.boot(broker_id, wait=False)
            self.cluster.settle(1)
            self.assertEqual(self.leader(), -1)
        self.cluster.boot(2)
        self.nothing_lost(1, 2)

    def test_undetected_loss_of_the_leader(self) -> None:
        """Followers with more committed records than their leader report it, and one of them becomes leader."""
        self.lead_with(1)
        self.patch(LogManager, "unclean_shutdown", False)
        with capturedLogs() as events:
            self.restart_unseen(1)
            self.assertTrue([event for event in events if "is not followed" in event["log_format"]])
        self.nothing_lost(0, 2)


class OneBrokerTests(ReplicationCase):
    """A cluster of one."""

    brokers = 1

    def test_single_broker_leads_at_once(self) -> None:
        """A single broker leads at once after an unclean stop."""
        self.cluster[0].create("t", 1)
        self.assertEqual(self.produce(b"a").error_code, 0)
        self.cluster.kill(0)
        self.cluster.boot(0)
        self.assertEqual(self.leader(), 0)
        self.assertEqual(self.produce(b"b").error_code, 0)
