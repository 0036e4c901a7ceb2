"""
``Consumer.each`` in groups whose members come and go amid the processing, of both clients and both protocols.

What is tested is what a group's members promise each other: a partition moves when nothing of it is under way, the next
member begins with what is unfinished, and what is lost is cancelled.
"""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.internet.defer import CancelledError

from logbus.client import GroupListener, ProcessingFailed
from logbus.model import TopicPartition
from tests.client.consumer.each_kit import EachCase, Member, Place

BOTH = frozenset({0, 1})


class Revocations(GroupListener):
    """
    Notes what is under way when partitions are revoked.

    :ivar member: set once it is made.
    """

    def __init__(self) -> None:
        self.member: Member | None = None
        self.revoked: list[tuple[set[int], set[Place]]] = []

    def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        assert self.member is not None
        gone = {each.partition for each in partitions}
        self.revoked.append((gone, {place for place in self.member.under_way if place[0] in gone}))


class Handovers(EachCase):
    """Two members, of which the second one comes while the first one has records of all partitions under way."""

    __test__ = False

    def first(self, *keys: bytes, begun: int = 4, **options: Any) -> Member:
        """A member that has so many records under way."""
        self.fill(*keys or (b"a", b"a", b"b"))
        member = self.member()
        member.each(**options)
        self.until(lambda: len(member.under_way) == begun)
        return member

    def second(self) -> Member:
        """Another one, which the group knows of."""
        member = self.member()
        member.each()
        # The first one hears of it by a heartbeat, which the broker has it send every 5 seconds.
        self.brokers.settle(7)
        return member

    def test_revoked(self) -> None:
        """A partition goes when what is under way has ended; the other member begins with what is unfinished."""
        one = self.first()
        other = self.second()
        self.assertEqual(other.begun, [])
        # Both at once, of which the second may begin in the member that keeps the partition.
        one.end((0, 0), (0, 2), (1, 0), (1, 2))
        self.until(lambda: other.begun)
        (moved,) = other.partitions
        self.assertEqual(one.partitions, BOTH - {moved})
        # What was finished after the first unfinished record is processed again, too.
        self.until(lambda: len(other.begun) == 2)
        self.assertEqual((one.cancelled, sorted(other.begun)), ([], [(moved, 1), (moved, 2)]))
        self.finish()

    def test_listener(self) -> None:
        """The listener hears of it when nothing of the partitions is under way, so that it can commit or flush."""
        self.fill(b"a", b"b")
        listener = Revocations()
        one = listener.member = self.member(listener=listener)
        one.each()
        self.until(lambda: len(one.under_way) == 4)
        other = self.second()
        self.assertEqual(listener.revoked, [])
        one.end()
        self.until(lambda: other.partitions)
        self.assertTrue(listener.revoked)
        for gone, under_way in listener.revoked:
            self.assertEqual(under_way, set(), gone)
        self.finish()

    def test_bound(self) -> None:
        """Who takes too long is cancelled; what was finished after it is processed again, and nothing is left out."""
        one = self.first(b"a", b"b", b"c", begun=6, drain_timeout=5.0)
        one.end((0, 1), (1, 1), (0, 2), (1, 2))
        other = self.second()
        self.until(lambda: other.begun)
        (moved,) = other.partitions
        self.assertIn((moved, 0), one.cancelled)
        self.assertIn((moved, 0), other.begun)
        self.finish()
        self.assertLessEqual({(p, o) for p in (0, 1) for o in (0, 1, 2)}, {*one.finished, *other.finished})

    def test_cancel(self) -> None:
        """A cancellation while a partition waits to go cancels what is under way; the other begins with that."""
        one = self.first()
        other = self.second()
        one.running.cancel()
        self.until(lambda: one.running.called)
        self.failureResultOf(one.running, CancelledError)
        self.assertEqual(sorted(one.cancelled), [(0, 0), (0, 2), (1, 0), (1, 2)])
        closing = one.close()
        self.until(lambda: len(other.under_way) == 4)
        self.assertEqual(sorted(other.under_way), [(0, 0), (0, 2), (1, 0), (1, 2)])
        self.brokers.result(closing)
        self.members.remove(one)
        self.finish()

    def test_error(self) -> None:
        """An error while a partition waits to go ends it as ever, and the record is one for the other member."""
        one = self.first()
        other = self.second()
        one.end((0, 0), error=ValueError("no"))
        one.end((0, 2), (1, 0), (1, 2))
        self.until(lambda: one.running.called)
        error = self.failureResultOf(one.running, ProcessingFailed).value
        self.assertEqual(str(error), "t-0@0: ValueError: no")
        self.brokers.result(one.close(), 30)
        self.members.remove(one)
        self.until(lambda: other.partitions == BOTH and (0, 0) in other.begun)
        self.assertNotIn((1, 0), other.begun)
        self.finish()

    def test_leaves(self) -> None:
        """A member that closes waits for what is under way; until then the other one does not have its partitions."""
        one = self.first()
        other = self.second()
        closing = one.close()
        self.brokers.settle(3)
        self.assertFalse(closing.called)
        self.assertEqual(other.begun, [])
        one.end()
        self.brokers.result(closing, 30)
        self.assertIsNone(self.successResultOf(one.running))
        self.until(lambda: sorted(other.under_way) == [(0, 1), (0, 2), (1, 1), (1, 2)])
        self.finish()

    def test_lost(self) -> None:
        """
        A member that is cut off for too long loses its partitions: what is under way is cancelled, its outcome is
        committed by nobody, and it comes back as a member.
        """
        one = self.first()
        for broker in (0, 1):
            self.brokers.cut(one.machine, broker)
        other = self.member()
        other.each()
        self.until(lambda: len(other.under_way) == 4, 120)
        other.end((0, 0), (0, 2))
        self.brokers.mend()
        self.until(lambda: len(one.cancelled) == 4, 120)
        self.assertFalse(one.running.called)
        self.until(lambda: (other.end(), one.partitions and one.partitions != BOTH)[1], 120)
        self.finish()
        self.assertLessEqual({(p, o) for p in (0, 1) for o in (0, 1, 2)}, {*one.finished, *other.finished})

    def test_gone(self) -> None:
        """A member that never comes back: the other one begins with the lowest that was not committed as finished."""
        self.fill(b"a", b"b", b"c", partitions=[0])
        one = self.member()
        one.each()
        self.until(lambda: len(one.under_way) == 3)
        one.end((0, 0), (0, 2))
        self.until(lambda: self.committed(0) == 1)
        for broker in (0, 1):
            self.brokers.cut(one.machine, broker)
        other = self.member()
        other.each()
        self.until(lambda: other.begun, 120)
        self.assertEqual(sorted(other.begun), [(0, 1), (0, 2)])
        self.brokers.mend()
        self.until(lambda: one.cancelled, 120)
        self.finish()

    def test_many_moves(self) -> None:
        """
        While members come and go in order, no record is processed by two members at once, nor left out; those of a key
        are finished in order, and all are committed.
        """
        chance = Random(7)
        keys = [b"%d" % chance.randrange(5) for _ in range(40)]
        self.fill(*keys)
        order: list[Place] = []
        left = [self.member()]
        left[0].each(concurrency=4)
        gone: list[Member] = []
        for turn in range(1000):
            if len({*order}) == 80:
                break
            if turn % 12 == 5 and len(left) < 3:
                left.append(self.member())
                left[-1].each(concurrency=4)
            elif turn % 12 == 11 and len(left) > 1:
                leaving = left.pop(chance.randrange(len(left)))
                gone.append(leaving)
                leaving.close()
            for member in [*left, *gone]:
                for place in sorted(member.under_way):
                    if chance.random() < 0.2:
                        self.assertEqual([each for each in self.members if place in each.under_way], [member])
                        member.end(place)
                        order.append(place)
            self.brokers.settle(0.3)
        self.assertEqual({*order}, {(p, o) for p in (0, 1) for o in range(40)})
        for partition in (0, 1):
            for key in {*keys}:
                found = [o for p, o in dict.fromkeys(order) if p == partition and keys[o] == key]
                self.assertEqual(found, sorted(found))
        self.assertGreater(len([each for each in self.members if each.finished]), 2)
        self.finish()
        self.assertEqual([each.cancelled for each in self.members], [[]] * len(self.members))


class EagerTests(Handovers):
    """All partitions are revoked in each rebalance."""

    __test__ = True
    options = {"assignors": ("range",)}


class CooperativeTests(Handovers):
    """Members keep what stays theirs, and go on with it."""

    __test__ = True
    options = {"assignors": ("cooperative-sticky",)}


class ConsumerProtocolTests(Handovers):
    """The broker assigns."""

    __test__ = True
    options = {"group_protocol": "consumer"}


class AioEagerTests(EagerTests):
    """The client for asyncio."""

    is_aio = True


class AioCooperativeTests(CooperativeTests):
    """The client for asyncio."""

    is_aio = True


class AioConsumerProtocolTests(ConsumerProtocolTests):
    """The client for asyncio."""

    is_aio = True
