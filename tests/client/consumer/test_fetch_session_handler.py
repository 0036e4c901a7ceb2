"""Incremental fetch sessions, on their own and at a real broker."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.consumer.consumer import Consumer
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.consumer.fetch_options import FetchOptions
from logbus.client.consumer.fetch_session_handler import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchPartitionData,
    FetchSessionHandler,
)
from logbus.client.consumer.fetcher import Fetcher
from logbus.client.list_offsets import EARLIEST
from logbus.handlers.fetch import FetchHandlers
from logbus.model import TopicPartition
from logbus.records.compression import Codec
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


class FetchSessionHandlerTests(SynchronousTestCase):
    """The session as a broker would see it."""

    @given(st.lists(st.tuples(WANTED, st.sampled_from(["kept", "lost", "none"]), st.booleans()), max_size=8))
    def test_requests_add_up_to_the_wanted_partitions(self, turns: Any) -> None:
        """The requests of a session always add up to the wanted partitions, whatever happened before."""
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
                session.note_response(each)
            if fate == "lost":
                session.reset()
            elif fate == "none":
                session.note_session(0)
            else:
                number = session.session_id or number + 1
                session.note_session(number)
            self.assertNotEqual(session.epoch, FINAL_EPOCH)

    def test_only_changes_are_named(self) -> None:
        """Unchanged partitions are not named again, unless a response contained them."""
        session = FetchSessionHandler()
        wanted = dict.fromkeys(PARTITIONS, FetchPartitionData(0, 100))
        session.next_fetch(wanted, IDS)
        session.note_session(7)
        self.assertEqual(session.next_fetch(wanted, IDS), ([], []))
        session.note_session(7)
        self.assertEqual(session.epoch, 2)
        session.note_response(PARTITIONS[4])
        (topic,), _ = session.next_fetch(wanted, IDS)
        self.assertEqual((topic.topic, [each.partition for each in topic.partitions]), ("u", [1]))

    def test_recreated_topic(self) -> None:
        """The new topic id begins a new session."""
        session = FetchSessionHandler()
        session.next_fetch({PARTITIONS[0]: FetchPartitionData(0, 100)}, {"t": b"1" * 16})
        session.note_session(7)
        topics, _ = session.next_fetch({PARTITIONS[0]: FetchPartitionData(0, 100)}, {"t": b"2" * 16})
        self.assertEqual((session.session_id, topics[0].topic_id), (0, b"2" * 16))


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
        fetcher = Fetcher(
            self.a_client(), FetchOptions(queue_bytes=1024 * 1024, partition_max_bytes=200_000, **options)
        )
        self.addCleanup(fetcher.close)
        fetcher.assign({TopicPartition("t", number): EARLIEST for number in range(6)})
        return fetcher

    def take_all(self, fetcher: Fetcher, wanted: int) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}

        async def read() -> None:
            while sum(map(len, found.values())) < wanted:
                fetched = await fetcher.poll()
                found.setdefault(fetched.partition.partition, []).extend(each.offset for each in fetched.records)
                self.assertLess(fetcher.assigned._buffer.size, 1024 * 1024)

        self.cluster.now(Deferred.fromCoroutine(read()), 60)
        return found

    def test_sleeping_application(self) -> None:
        """The buffer stays within its bounds, for minutes; then each record is delivered once."""
        fetcher = self.fetcher()
        for _ in range(300):
            self.cluster.settle(1)
            self.assertLess(fetcher.assigned._buffer.size, 1024 * 1024)
        self.assertGreater(fetcher.assigned._buffer.size, 500_000)
        self.assertEqual(self.take_all(fetcher, 360), {number: list(range(60)) for number in range(6)})

    def test_paused_partitions_leave_room(self) -> None:
        """Paused partitions take a part of the buffer at most; when they are resumed, no record is missing."""
        fetcher = self.fetcher()
        for _ in range(20):
            self.cluster.settle(0.1)
        paused = [TopicPartition("t", number) for number in range(5)]
        fetcher.assigned.pause(paused)
        self.assertLessEqual(fetcher.assigned._buffer.paused_size, 256 * 1024)
        self.assertEqual(self.take_all(fetcher, 60), {5: list(range(60))})
        fetcher.resume(paused)
        self.assertEqual(self.take_all(fetcher, 300), {number: list(range(60)) for number in range(5)})


class EndingTests(MembershipCase):
    """Sessions that brokers need not keep."""

    def setUp(self) -> None:
        super().setUp()
        self.sessions = self.cluster[0].broker.kafka_server.router.find(FetchHandlers).sessions
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

    def test_no_partitions(self) -> None:
        """A consumer without partitions leaves no session, and can read on in another."""
        self.cluster.now(self.consumer.unsubscribe())
        self.assertEqual(len(self.sessions), 0)
        self.read()
        self.consumer.assign({})
        self.cluster.settle(0.1)
        self.assertEqual(len(self.sessions), 0)
        self.cluster[0].connect().produce(a_batch(b"a"), "t", 3)
        self.read()
        self.assertEqual(self.cluster.now(Deferred.fromCoroutine(self.consumer.__anext__())).value, b"a")

    def test_unreachable_broker_at_close(self) -> None:
        """Closing sessions does not wait for long."""
        self.cluster.cut(CLIENTS, 0)
        closing = self.consumer.close()
        self.cluster.settle(0.5)
        self.assertNoResult(closing)
        self.cluster.settle(0.6)
        self.successResultOf(closing)
