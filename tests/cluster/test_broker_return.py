"""Brokers whose sessions were lost while their processes ran on: all replicas are soon in sync again."""

from __future__ import annotations

from tests.cluster.test_replication import ReplicationCase

SOON = 3.0
"""Seconds."""


class ReturningTests(ReplicationCase):
    """Nothing is written after the broker came back: nothing else makes leaders look at it."""

    def setUp(self) -> None:
        super().setUp()
        self.create(partitions=3)
        self.produce(b"a")
        self.cluster.settle(1)

    def expire(self, broker_id: int, seconds: float = 0.0) -> None:
        """Its session expires; seconds later it is connected again."""
        store = self.cluster[broker_id].broker.member.store
        store.suspend()
        store.expire()
        self.cluster.settle(seconds)
        store.resume()

    def all_in_sync(self) -> None:
        self.cluster.settle(SOON)
        self.assertEqual([sorted(self.isr(n)) for n in range(3)], [[0, 1, 2]] * 3)

    def test_another_session(self) -> None:
        """A session expires, and the broker registers again at once."""
        for broker_id in (1, 2):
            with self.subTest(broker=broker_id):
                self.expire(broker_id)
                self.all_in_sync()

    def test_expired_sessions(self) -> None:
        """
        Other brokers lead the partitions of a broker whose session expired; when it is back, theirs stay where they
        are.
        """
        for broker_id in (1, 2):
            with self.subTest(broker=broker_id):
                self.expire(broker_id, 5.0)
                self.all_in_sync()

    def test_the_controller(self) -> None:
        """Another one is the controller when it is back."""
        self.expire(0, 5.0)
        self.assertNotEqual(self.cluster.controller, 0)
        self.all_in_sync()

    def test_cut_off_from_all(self) -> None:
        """The controller hears nobody and is heard by nobody, and its connections are dead when that ends."""
        self.cluster.cut(0, 1)
        self.cluster.cut(0, 2)
        self.expire(0, 5.0)
        self.cluster.mend()
        self.all_in_sync()
