"""The reader of a partition of ``__remote_log_metadata``, and what it does when records that it has read are gone."""

from __future__ import annotations

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.remote_log.metadata_consumer import IDLE_SECONDS, MetadataConsumer
from logbus.cluster.remote_log.metadata_requests import States
from logbus.records.batch import BatchBuilder
from logbus.records.compression import Codec


@define
class Leader:
    """
    The partition's leader.

    :ivar batches: of one record each.
    :ivar readable: the records that may be read, None: all.
    """

    batches: list[bytes] = field(factory=list)
    readable: int | None = None

    def append(self, *keys: bytes) -> None:
        for key in keys:
            builder = BatchBuilder(Codec.NONE)
            builder.append(0, key, b"")
            self.batches.append(builder.build(base_offset=len(self.batches)))

    async def read(self, number: int, offset: int) -> States:
        end = len(self.batches) if self.readable is None else self.readable
        return States(offset, end, b"".join(self.batches[offset:end]))

    async def end(self, number: int) -> int:
        return len(self.batches)


class MetadataConsumerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.leader, self.clock = Leader(), Clock()
        self.applied: list[bytes | None] = []
        self.consumer = MetadataConsumer(
            0, self.leader.read, self.leader.end, lambda key, value: self.applied.append(key), lambda: None, self.clock
        )
        running = Deferred.fromCoroutine(self.consumer.run())
        self.addCleanup(lambda: (running.addErrback(lambda _: None), running.cancel()))

    def turn(self) -> list[bytes | None]:
        """What is applied in the next turn."""
        self.applied.clear()
        self.clock.advance(IDLE_SECONDS)
        return list(self.applied)

    def test_records_that_are_gone(self) -> None:
        """After an unclean election, or where the topic was made anew, all is read again."""
        self.leader.append(b"a", b"b", b"c")
        self.assertEqual(self.turn(), [b"a", b"b", b"c"])
        del self.leader.batches[1:]
        self.leader.append(b"d")
        self.assertEqual(self.turn(), [b"a", b"d"])
        self.assertEqual(self.turn(), [])

    def test_what_cannot_be_read_for_a_moment(self) -> None:
        """A new leader lets less be read at first than the last one did."""
        self.leader.append(b"a", b"b", b"c")
        self.turn()
        self.leader.readable = 1
        self.assertEqual(self.turn(), [])
        self.leader.readable = None
        self.leader.append(b"d")
        self.assertEqual(self.turn(), [b"d"])

    def test_reached_after_a_loss(self) -> None:
        """Who asks for the end first is not told that all is known, as its offset was passed before the loss."""
        self.leader.append(b"a", b"b", b"c")
        self.turn()
        del self.leader.batches[:]
        self.leader.append(b"d")
        self.applied.clear()
        end = self.successResultOf(Deferred.fromCoroutine(self.consumer.end()))
        self.assertEqual(end, 1)
        self.successResultOf(self.consumer.reached(end))
        self.assertEqual(self.applied, [b"d"])
