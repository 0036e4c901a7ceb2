"""Tests of :mod:`logbus.coordination.deleted_topics`, by itself and in the group coordinator."""

from __future__ import annotations

from types import SimpleNamespace

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination import group_cleanup
from logbus.coordination.deleted_topics import DeletedTopics
from logbus.coordination.group_offsets import CommittedOffset, GroupOffsets, offset_commit_change
from logbus.model import TopicPartition
from tests.handlers.group_kit import commit, fetch_committed
from tests.handlers.test_txn_offset_commit import TransactionCase

MANY = 450
T0 = ("t", 0)
U0, U1 = TopicPartition("u", 0), TopicPartition("u", 1)


class DeletedTopicsTests(SynchronousTestCase):
    """Which offsets are over."""

    def test_what_is_committed_since(self) -> None:
        """Offsets of a deleted topic are over, but not those that were committed since then."""
        deleted = DeletedTopics()
        deleted.keep("g", U0)
        self.assertFalse(deleted)
        deleted.add(["u", "v"])
        deleted.keep("g", U0)
        self.assertTrue(deleted)
        over = [deleted.over(group, one) for group in "gh" for one in (U0, U1, TopicPartition("t", 0))]
        self.assertEqual(over, [False, True, False, True, True, False])
        deleted.end(deleted.begin())
        self.assertFalse(deleted.over("g", U1) or deleted)

    def test_a_topic_deleted_again(self) -> None:
        """The second deletion counts for all offsets, and they are looked for once more."""
        deleted = DeletedTopics()
        deleted.add(["u", "v"])
        begun = deleted.begin()
        deleted.keep("g", U0)
        deleted.add(["u"])
        self.assertTrue(deleted.over("g", U0))
        deleted.end(begun)
        self.assertEqual(set(deleted.begin()), {"u"})
        deleted.end(deleted.begin())
        self.assertFalse(deleted)

    def test_offsets_of_a_group(self) -> None:
        """Those that are over are not visible."""
        deleted = DeletedTopics()
        held = GroupOffsets("g", deleted)
        for partition in (U0, U1):
            held.apply(*offset_commit_change("g", partition, CommittedOffset(1)))
        deleted.add(["u"])
        deleted.keep("g", U1)
        self.assertEqual(held.over(held.partitions()), [U0])
        self.assertEqual(list(held.visible()), [U1])
        self.assertEqual([held.get("u", number) for number in (0, 1)], [None, CommittedOffset(1)])


class RemovalTests(TransactionCase):
    """The removal of many offsets, some in each turn of the reactor."""

    def setUp(self) -> None:
        super().setUp()
        self.server.create("u", MANY)
        self.turns: list[Deferred[None]] = []
        # Every part of a group's offsets is a turn.
        self.patch(group_cleanup, "OFFSETS_A_TURN", 1)
        commit(self.client, {T0: 5, **{("u", number): 6 for number in range(MANY)}})

    def forget(self) -> None:
        """Delete the topic, as far as groups are concerned, and stop after the first turn."""

        def later() -> Deferred[None]:
            self.turns.append(Deferred())
            return self.turns[-1]

        self.patch(group_cleanup, "TimeSlice", lambda slices: SimpleNamespace(next=later))
        self.server.broker.coordinators.group_cleanup.forget_topics(["u"])
        self.assertEqual(len(self.turns), 1)

    def finish(self) -> int:
        """Let it go on to the end; the number of turns."""
        done = 0
        while done < len(self.turns):
            self.turns[done].callback(None)
            done += 1
        return done

    def check(self, expected: dict[tuple[str, int], int]) -> None:
        """These are the offsets, also in the log."""
        for _ in range(2):
            self.assertEqual(fetch_committed(self.client), expected)
            self.restart()

    def test_in_turns(self) -> None:
        """From the deletion on none is visible; a hundred are removed in a turn."""
        self.forget()
        self.assertEqual(fetch_committed(self.client), {T0: 5})
        self.assertEqual(fetch_committed(self.client, topics={"u": [0, MANY - 1]})["u", MANY - 1], -1)
        self.assertEqual(self.server.broker.coordinators.groups.committed_count(), MANY + 1 - 99)
        self.assertEqual(self.finish(), 5)
        self.assertEqual(self.server.broker.coordinators.groups.committed_count(), 1)
        self.check({T0: 5})

    def test_commits_meanwhile(self) -> None:
        """What is committed for a new topic of the name stays, wherever the removal is."""
        self.forget()
        new = {("u", 0): 8, ("u", MANY - 1): 9}
        self.assertEqual(set(commit(self.client, new).values()), {0})
        self.assertEqual(fetch_committed(self.client), {T0: 5, **new})
        self.finish()
        self.check({T0: 5, **new})

    def test_transactions_meanwhile(self) -> None:
        """So does what is pending; the old offset does not come back if it is aborted."""
        self.producer.commit({("u", MANY - 1): 7})
        self.forget()
        for committed in (False, True):
            other = self.a_producer(f"p{committed}")
            self.assertEqual(set(other.commit({("u", MANY - 1 - committed): 10}).values()), {0})
            if not committed:
                other.end(committed=False)
        self.finish()
        self.producer.end()
        other.end()
        self.check({T0: 5, ("u", MANY - 2): 10})

    def test_deleted_again(self) -> None:
        """Offsets that were committed between two deletions go as well."""
        self.forget()
        commit(self.client, {("u", 0): 8, ("u", MANY - 1): 9})
        self.server.broker.coordinators.group_cleanup.forget_topics(["u"])
        self.assertEqual(fetch_committed(self.client), {T0: 5})
        self.assertGreater(self.finish(), 5)
        self.assertEqual(len(self.server.broker.coordinators.groups.offsets("g").deleted.begin()), 0)
        self.check({T0: 5})

    def test_leadership_lost_meanwhile(self) -> None:
        """The rest is left alone."""
        self.forget()
        coordinator = self.server.broker.coordinators.groups
        shard = coordinator.shards[coordinator.partition_of("g")]
        end = shard.log.end_offset
        coordinator.leads_no_more(shard.log.replica.topic_partition)
        self.assertEqual(self.finish(), 1)
        self.assertEqual(shard.log.end_offset, end)
        self.assertTrue(shard.closed)


class ExpirationTests(TransactionCase):
    """Very many expired offsets of one group."""

    def test_in_turns(self) -> None:
        """They are removed some in each turn, and the group with the last of them."""
        self.server.create("u", MANY)
        commit(self.client, {("u", number): 6 for number in range(MANY)}, version=4, retention_time_ms=1000)
        coordinator = self.server.broker.coordinators.groups
        self.patch(group_cleanup, "EXPIRED_A_TURN", 100)
        self.patch(group_cleanup, "GROUPS_A_TURN", 1)
        left: list[int] = []

        def later() -> Deferred[None]:
            left.append(coordinator.committed_count())
            return succeed(None)

        self.patch(group_cleanup, "TimeSlice", lambda slices: SimpleNamespace(next=later))
        self.client.turn(2000)
        self.assertEqual(left, [350, 250, 150, 50, 0])
        self.assertEqual(coordinator.metrics.expired, MANY)
        self.client = self.server.connect()
        self.assertEqual(self.listed(), [])
