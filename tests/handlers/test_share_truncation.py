"""Members of a share group, after a power cut has lost records that the group has acknowledged."""

from __future__ import annotations

from logbus.testing.simulation.environment.inodes import PowerCutOutcome
from tests.handlers.kit import MemoryBroker, a_batch
from tests.handlers.test_share_fetches import ACCEPT, RELEASE, Member, ShareFetchCase

FINAL_EPOCH = -1


class LostRecordsTests(ShareFetchCase):
    """Of the records 0 to 4, those from 3 on are lost."""

    def setUp(self) -> None:
        super().setUp()
        self.client.produce(a_batch(b"0", b"1", b"2"))
        self.flush("t", 0)
        self.client.produce(a_batch(b"3", b"4"))
        self.assertEqual(self.member.fetch(), [(0, 4, 1)])

    def flush(self, topic: str, partition: int) -> None:
        replica = self.server.broker.replication.replicas.get(topic, partition)
        self.server.now(replica.log.flush())

    def cut_power(self) -> None:
        """The broker starts again without what was not flushed of the topic; what coordinators know is there."""
        for place in [replica.topic_partition for replica in self.server.broker.replication.replicas]:
            if place.topic != "t":
                self.flush(*place)
        ensemble = self.server.ensemble
        (session,) = ensemble.clients
        ensemble.clients.remove(session)
        ensemble.end(session.session_id)
        disks = [disk.after_power_cut(PowerCutOutcome("lose")) for disk in self.server.disks]
        self.server = MemoryBroker(self.config, disks=disks, ensemble=ensemble).start()
        self.addCleanup(self.server.close)
        # It is closed, too, when the test is over.
        ensemble.clients.append(session)
        self.client = self.server.connect()
        for _ in range(20):
            self.client.turn(0.1)
        self.member = Member(self.server.connect(), "a")

    def begin_anew(self) -> None:
        """Nobody fetches the partition any more, so that its state is read the next time."""
        self.member.ask(epoch=FINAL_EPOCH)
        for _ in range(5):
            self.client.turn()
        self.member.epoch = 0

    def test_all_were_acknowledged(self) -> None:
        """The group goes on where the log ends now, and gets the records in the place of the lost ones."""
        self.member.fetch((0, 4, ACCEPT))
        self.cut_power()
        self.assertEqual(self.member.fetch(), [])
        self.client.produce(a_batch(b"new 3", b"new 4"))
        self.assertEqual(self.member.fetch(), [(3, 4, 1)])
        self.begin_anew()
        self.client.produce(a_batch(b"5"))
        self.assertEqual(self.member.fetch(), [(3, 4, 2), (5, 5, 1)])

    def test_others_are_there_when_the_group_comes(self) -> None:
        """Those that have taken the place of acknowledged ones by then are new; so are those behind them."""
        self.member.fetch((0, 4, ACCEPT))
        self.cut_power()
        self.client.produce(a_batch(b"new 3", b"new 4", b"new 5"))
        self.assertEqual(self.member.fetch(), [(3, 5, 1)])
        self.begin_anew()
        self.assertEqual(self.member.fetch(), [(3, 5, 2)])

    def test_some_were_acknowledged(self) -> None:
        """Those that take the place of acknowledged ones behind the end are new."""
        self.member.fetch((0, 2, RELEASE), (3, 4, ACCEPT), max_records=0)
        self.cut_power()
        self.assertEqual(self.member.fetch(), [(0, 2, 2)])
        self.client.produce(a_batch(b"new 3", b"new 4"))
        self.assertEqual(self.member.fetch((0, 2, ACCEPT)), [(3, 4, 1)])
