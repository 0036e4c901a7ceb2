"""Incremental fetch sessions, on their own and at a real broker."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.consumer.batch_delivery import BatchDelivery
from logbus.client.consumer.completed_fetch import completed_fetch
from logbus.client.consumer.consumer import Consumer
from logbus.client.consumer.consumer_record import ConsumerRecord, Fetched
from logbus.client.consumer.fetch_buffer import FetchBuffer, PartitionProblem
from logbus.client.consumer.fetch_session_handler import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchPartitionData,
    FetchSessionHandler,
)
from logbus.client.consumer.fetcher import Fetcher
from logbus.client.list_offsets import EARLIEST
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.records.batch import encode_batch
from logbus.records.compression import Codec
from logbus.records.record import Record
from logbus.wire.messages.records import PartitionData
from tests.client.membership_kit import CLIENTS, MembershipCase
from tests.handlers.kit import a_batch

CODECS = [Codec.NONE, Codec.GZIP]
PARTITIONS = [TopicPartition(name, index) for name in ("t", "u") for index in range(3)]
IDS = {"t": b"t" * 16, "u": b"u" * 16}
WANTED = st.dictionaries(
    st.sampled_from(PARTITIONS),
    st.builds(FetchPartitionData, st.integers(0, 3), st.just(100), st.integers(-1, 1)),
    max_size=6,
)


def record(offset: int, value: bytes = b"v") -> ConsumerRecord:
    return ConsumerRecord("t", 0, offset, 0, None, value, ())


class FetchSessionTests(SynchronousTestCase):
    """What a broker would make of the requests."""

    @given(st.lists(st.tuples(WANTED, st.sampled_from(["kept", "lost", "none"]), st.booleans()), max_size=8))
    def test_a_broker_knows_what_is_wanted(self, turns: Any) -> None:
        """
        From what it was told since the session began it knows each partition that is wanted, as it is wanted now, and
        no others, whatever happened before.
        """
        session, known, number = FetchSessionHandler(), {}, 0
        for wanted, fate, by_id in turns:
            topics, forgotten = session.next_fetch(wanted, IDS if by_id else {})
            if session.epoch == INITIAL_EPOCH:
                known = {}
                self.assertEqual((session.session_id, forgotten), (0, []))
            else:
                self.assertEqual(session.session_id, number)
            for topic in forgotten:
                self.assertEqual(topic.topic_id, IDS[topic.topic] if by_id else bytes(16))
                for index in topic.partitions:
                    del known[TopicPartition(topic.topic, index)]
            for topic in topics:
                self.assertEqual(topic.topic_id, IDS[topic.topic] if by_id else bytes(16))
                for each in topic.partitions:
                    epochs = each.current_leader_epoch, each.last_fetched_epoch
                    ask = FetchPartitionData(each.fetch_offset, each.partition_max_bytes, *epochs)
                    known[TopicPartition(topic.topic, each.partition)] = ask
            self.assertEqual(known, wanted)
            for each in list(wanted)[:1]:
                session.heard_of(each)
            if fate == "lost":
                session.reset()
            elif fate == "none":
                session.answered(0)
            else:
                number = session.session_id or number + 1
                session.answered(number)
            self.assertNotEqual(session.epoch, FINAL_EPOCH)

    def test_only_changes_are_named(self) -> None:
        """
        What is wanted as before is not named again, unless an answer spoke of it.
        """
        session = FetchSessionHandler()
        wanted = dict.fromkeys(PARTITIONS, FetchPartitionData(0, 100))
        session.next_fetch(wanted, IDS)
        session.answered(7)
        self.assertEqual(session.next_fetch(wanted, IDS), ([], []))
        session.answered(7)
        self.assertEqual(session.epoch, 2)
        session.heard_of(PARTITIONS[4])
        (topic,), _ = session.next_fetch(wanted, IDS)
        self.assertEqual((topic.topic, [each.partition for each in topic.partitions]), ("u", [1]))

    def test_a_topic_that_was_made_again(self) -> None:
        """
        Its new id begins a new session.
        """
        session = FetchSessionHandler()
        session.next_fetch({PARTITIONS[0]: FetchPartitionData(0, 100)}, {"t": b"1" * 16})
        session.answered(7)
        topics, _ = session.next_fetch({PARTITIONS[0]: FetchPartitionData(0, 100)}, {"t": b"2" * 16})
        self.assertEqual((session.session_id, topics[0].topic_id), (0, b"2" * 16))


class ChunkTests(SynchronousTestCase):
    """Batches that are decoded when they are taken out."""

    P = PARTITIONS[0]

    def data(self, *sizes: int, base: int = 0, codec: Codec = Codec.NONE) -> bytes:
        whole = b""
        for size in sizes:
            records = [Record(base + i, 7, b"k", b"%d" % (base + i), (("h", None),)) for i in range(size)]
            whole += encode_batch(records, base_offset=base, codec=codec)
            base += size
        return whole

    @given(
        st.lists(st.integers(1, 1500), min_size=1, max_size=5), st.integers(0, 2000), st.sampled_from(list(Codec)[:2])
    )
    def test_records_come_out_as_they_went_in(self, sizes: list[int], offset: int, codec: Codec) -> None:
        """
        From the offset on, each once, whatever the batches are; and bytes are counted down to nothing.
        """
        total = sum(sizes)
        offset = min(offset, total - 1)
        raw = self.data(*sizes, codec=codec) + b"the beginning of another"
        kept = completed_fetch(
            self.P, offset, PartitionData(partition_index=0, high_watermark=total, records=raw), False
        )
        assert kept is not None
        chunk, last = kept
        self.assertEqual(last.next_offset, total)
        found: list[ConsumerRecord] = []
        while chunk.size:
            fetched = chunk.take()
            self.assertEqual(fetched.high_watermark, total)
            found += fetched.records
            self.assertEqual(fetched.next_offset, found[-1].offset + 1 if found else offset)
        wanted = [ConsumerRecord("t", 0, i, 7, b"k", b"%d" % i, (("h", None),)) for i in range(offset, total)]
        self.assertEqual(found, wanted)

    def test_what_is_lent_is_copied(self) -> None:
        """
        The memory that an answer came in may be used again.
        """
        raw = bytearray(self.data(2))
        kept = completed_fetch(
            self.P, 0, PartitionData(partition_index=0, high_watermark=2, records=memoryview(raw)), False
        )
        assert kept is not None
        raw[:] = bytes(len(raw))
        self.assertEqual(len(kept[0].take().records), 2)

    def test_damage_comes_after_what_is_sound(self) -> None:
        """
        The batches before a damaged one are handed out; then it is an error, each time.
        """
        raw = bytearray(self.data(2, 2))
        raw[-1] ^= 1
        kept = completed_fetch(self.P, 0, PartitionData(partition_index=0, high_watermark=4, records=bytes(raw)), False)
        assert kept is not None
        self.assertEqual([each.offset for each in kept[0].take().records], [0, 1])
        for _ in range(2):
            with self.assertRaisesRegex(ApiError, "t-0: the batch at offset 2 cannot be read"):
                kept[0].take()

    def test_what_is_no_batch(self) -> None:
        """
        It is an error that says where; half a batch is nothing.
        """
        with self.assertRaisesRegex(ApiError, "t-0: the batch at offset 5"):
            completed_fetch(self.P, 5, PartitionData(partition_index=0, high_watermark=4, records=b"\1" * 100), False)
        half = PartitionData(partition_index=0, high_watermark=4, records=self.data(2)[:-1])
        self.assertIsNone(completed_fetch(self.P, 0, half, False))


class HandTests(SynchronousTestCase):
    """How far the application is."""

    def hand(self, *offsets: int) -> BatchDelivery:
        return BatchDelivery(Fetched(PARTITIONS[0], [record(each) for each in offsets], 9, 9, 0))

    def test_a_loop_is_at_the_last_one(self) -> None:
        """
        It is done when the next is asked for; offsets may leave gaps.
        """
        hand = self.hand(1, 4, 6)
        self.assertEqual((hand.position, hand.done), (1, 1))
        for position, done in ((4, 1), (6, 4), (9, 6)):
            next(hand.rest)
            self.assertEqual((hand.position, hand.done), (position, done))
        hand.settle()
        self.assertEqual((hand.position, hand.done, hand.is_over), (9, 9, True))

    def test_a_poll_is_at_all_it_gave(self) -> None:
        """
        None of it is done before the next.
        """
        hand = self.hand(1, 4, 6)
        self.assertEqual([each.offset for each in hand.take(2)], [1, 4])
        self.assertEqual((hand.position, hand.done), (6, 1))
        self.assertEqual([each.offset for each in hand.take(2)], [6])
        self.assertEqual((hand.position, hand.done), (9, 6))

    def test_two_batches_in_one_poll(self) -> None:
        """
        Nothing of the second is done before the first.
        """
        hand = self.hand(4, 6)
        hand.floor = 2
        hand.take(2)
        self.assertEqual(hand.done, 2)
        hand.settle()
        self.assertEqual(hand.done, 9)


class ReadAheadTests(SynchronousTestCase):
    """What is held of which partition."""

    def chunk(self, partition: TopicPartition, *sizes: int) -> Any:
        raw = ChunkTests.data(self, *sizes)  # type: ignore[arg-type]
        kept = completed_fetch(partition, 0, PartitionData(partition_index=0, high_watermark=9, records=raw), False)
        assert kept is not None
        return kept[0]

    def test_turns_and_sizes(self) -> None:
        """
        Partitions take turns; what is paused waits, and all sizes come back to nothing.
        """
        ahead, (a, b, c, *_) = FetchBuffer(), PARTITIONS
        for each in (a, b, c):
            ahead.put(each, self.chunk(each, 2500, 2500, 2500))
        total = ahead.size
        ahead.pause(b)
        self.assertEqual((ahead.paused_size, ahead.paused()), (total // 3, [b]))
        self.assertEqual([ahead.take().partition for _ in range(4)], [a, c, a, c])
        ahead.resume(b)
        self.assertEqual({ahead.take().partition for _ in range(3)}, {a, b, c})
        ahead.drop(b)
        self.assertEqual((bool(ahead), ahead.size, ahead.paused_size), (False, 0, 0))

    def test_a_problem_is_met_in_its_place(self) -> None:
        """
        What was read before it comes first.
        """
        ahead, (a, *_) = FetchBuffer(), PARTITIONS
        ahead.put(a, self.chunk(a, 1))
        ahead.put(a, PartitionProblem(ApiError(ErrorCode.CORRUPT_MESSAGE)))
        self.assertEqual(len(ahead.take().records), 1)
        with self.assertRaises(ApiError):
            ahead.take()
        self.assertFalse(ahead)


class BoundedTests(MembershipCase):
    """A fetcher of six partitions with a megabyte each, at a real broker."""

    SIZE = 16 * 1024

    def setUp(self) -> None:
        super().setUp()
        wire = self.cluster[0].connect()
        for partition in range(6):
            for number in range(60):
                wire.produce(a_batch(b"%d" % number + bytes(self.SIZE)), "t", partition)

    def fetcher(self, **options: Any) -> Fetcher:
        fetcher = Fetcher(self.a_client(), queue_bytes=1024 * 1024, partition_max_bytes=200_000, **options)
        self.addCleanup(fetcher.close)
        fetcher.assign({TopicPartition("t", number): EARLIEST for number in range(6)})
        return fetcher

    def take_all(self, fetcher: Fetcher, wanted: int) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}

        async def read() -> None:
            while sum(map(len, found.values())) < wanted:
                fetched = await fetcher.poll()
                found.setdefault(fetched.partition.partition, []).extend(each.offset for each in fetched.records)
                self.assertLess(fetcher._ahead.size, 1024 * 1024)

        self.cluster.now(Deferred.fromCoroutine(read()), 60)
        return found

    def test_an_application_that_sleeps(self) -> None:
        """
        What is read ahead stays within its bounds, for minutes, and then comes out, each record once.
        """
        fetcher = self.fetcher()
        for _ in range(300):
            self.cluster.settle(1)
            self.assertLess(fetcher._ahead.size, 1024 * 1024)
        self.assertGreater(fetcher._ahead.size, 500_000)
        self.assertEqual(self.take_all(fetcher, 360), {number: list(range(60)) for number in range(6)})

    def test_paused_partitions_do_not_starve_the_others(self) -> None:
        """
        They hold a part of the room at most; when they go on, nothing is missing.
        """
        fetcher = self.fetcher()
        for _ in range(20):
            self.cluster.settle(0.1)
        paused = [TopicPartition("t", number) for number in range(5)]
        fetcher.pause(paused)
        self.assertLessEqual(fetcher._ahead.paused_size, 256 * 1024)
        self.assertEqual(self.take_all(fetcher, 60), {5: list(range(60))})
        fetcher.resume(paused)
        self.assertEqual(self.take_all(fetcher, 300), {number: list(range(60)) for number in range(5)})


class EndingTests(MembershipCase):
    """Sessions that brokers need not keep."""

    def setUp(self) -> None:
        super().setUp()
        self.sessions = self.cluster[0].broker.fetch_handlers.sessions
        self.consumer = Consumer(self.a_client())
        self.addCleanup(self.consumer.close)
        self.read()

    def read(self) -> None:
        """Read all that there is, and wait for more."""
        self.consumer.assign({TopicPartition("t", number): EARLIEST for number in range(6)})
        self.cluster.settle(1)
        self.assertEqual(len(self.sessions), 1)

    def test_closing(self) -> None:
        """
        The session ends with the consumer, though a fetch waits for records.
        """
        self.assertEqual(self.cluster.now(self.consumer.close(), 0.2), None)
        self.assertEqual(len(self.sessions), 0)

    def test_reading_nothing(self) -> None:
        """
        Who gives up all partitions, in either way, leaves no session, and can read on in another.
        """
        self.cluster.now(self.consumer.unsubscribe())
        self.assertEqual(len(self.sessions), 0)
        self.read()
        self.consumer.assign({})
        self.cluster.settle(0.1)
        self.assertEqual(len(self.sessions), 0)
        self.cluster[0].connect().produce(a_batch(b"a"), "t", 3)
        self.read()
        self.assertEqual(self.cluster.now(Deferred.fromCoroutine(self.consumer.__anext__())).value, b"a")

    def test_a_broker_that_does_not_hear_of_it(self) -> None:
        """
        Nobody waits for long.
        """
        self.cluster.cut(CLIENTS, 0)
        closing = self.consumer.close()
        self.cluster.settle(0.5)
        self.assertNoResult(closing)
        self.cluster.settle(0.6)
        self.successResultOf(closing)
