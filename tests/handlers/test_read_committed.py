"""Fetch, ListOffsets and DescribeProducers with transactions, at ``read_committed``."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ErrorCode
from logbus.handlers import describe_producers
from logbus.model import LeaderAndIsr
from logbus.records.batch import ControlType, Marker
from logbus.records.header import iter_batches
from logbus.wire.messages.partitions import TopicPartitionIndexes
from logbus.wire.messages.records import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from logbus.wire.messages.transaction_admin import DescribeProducersRequest
from tests.handlers.kit import NOW_MS, Client, HandlerCase, MemoryBroker, a_batch, content, fetch_request


def write(server: MemoryBroker, *values: bytes, producer_id: int = 7, epoch: int = 0, sequence: int = 0) -> None:
    """A batch of a transaction, past its coordinator."""
    data = a_batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True)
    server.broker.replication.replicas.get("t", 0).append(data, NOW_MS)


def end(server: MemoryBroker, committed: bool, producer_id: int = 7, epoch: int = 0) -> None:
    marker = Marker(ControlType.COMMIT if committed else ControlType.ABORT, 1)
    server.broker.replication.replicas.get("t", 0).append_marker(producer_id, epoch, marker, NOW_MS, 1)


class CommittedCase(HandlerCase):
    def write(self, *values: bytes, **given: int) -> None:
        write(self.server, *values, **given)

    def end(self, committed: bool, **given: int) -> None:
        end(self.server, committed, **given)

    def fetch(self, offset: int = 0, committed: bool = True, **given: Any) -> Any:
        return self.client.fetch(offset, isolation_level=int(committed), **given)


def aborted(answer: Any) -> list[tuple[int, int]] | None:
    found = answer.aborted_transactions
    return None if found is None else [(one.producer_id, one.first_offset) for one in found]


class FetchTests(CommittedCase):
    """Fetch at read_committed."""

    def test_up_to_the_last_stable_offset(self) -> None:
        """An open transaction holds back all records after its first one, of any producer."""
        self.client.produce(a_batch(b"a"))
        self.write(b"b")
        self.client.produce(a_batch(b"c"))
        answer = self.fetch()
        self.assertEqual((answer.high_watermark, answer.last_stable_offset), (3, 1))
        self.assertEqual(content(answer), content(self.fetch(committed=False))[: len(a_batch(b"a"))])
        self.assertEqual(aborted(answer), [])
        self.end(True)
        answer = self.fetch()
        self.assertEqual((answer.last_stable_offset, content(answer)), (4, content(self.fetch(committed=False))))
        self.assertEqual(aborted(answer), [])

    def test_aborted(self) -> None:
        """Responses at ``read_committed`` contain records of aborted transactions, and list these transactions."""
        self.write(b"a")
        self.write(b"b", producer_id=8)
        self.write(b"c", producer_id=9)
        for producer_id, committed in ((8, False), (9, True), (7, False)):
            self.end(committed, producer_id=producer_id)
        for version in (4, 11, 12, 13, 18):
            answer = self.fetch(version=version)
            self.assertEqual(aborted(answer), [(7, 0), (8, 1)])
            self.assertEqual(content(answer), content(self.fetch(committed=False, version=version)))
            self.assertIsNone(aborted(self.fetch(committed=False, version=version)))
        self.assertEqual(aborted(self.fetch(4)), [(7, 0)])
        self.assertEqual(aborted(self.fetch(6)), [])

    def test_aborted_transactions_of_the_response(self) -> None:
        """Transactions that begin behind the response's records are not listed."""
        for n in range(20):
            self.write(bytes(300), producer_id=n)
            self.end(False, producer_id=n)
        answer = self.fetch(partition_max_bytes=1500)
        ends = [header.next_offset for _, header in iter_batches(content(answer))]
        self.assertTrue(1 < len(ends) < 20)
        self.assertEqual(aborted(answer), [(n, 2 * n) for n in range(20) if 2 * n < ends[-1]])

    def test_from_a_follower(self) -> None:
        """A follower that serves consumers knows of transactions what is in its log (KIP-392)."""
        self.write(b"a")
        self.end(False)
        self.write(b"b", sequence=1)
        replica = self.server.broker.replication.replicas.get("t", 0)
        replica.take_role(LeaderAndIsr(leader=9, leader_epoch=replica.partition.leader_epoch + 1, isr=(0, 9)))
        for version in (11, 12, 18):
            answer = self.fetch(version=version)
            self.assertEqual((answer.error_code, answer.high_watermark, answer.last_stable_offset), (0, 3, 2))
            self.assertEqual(aborted(answer), [(7, 0)])
            self.assertEqual([h.base_offset for _, h in iter_batches(content(answer))], [0, 1])
        self.assertEqual(self.fetch(version=10).error_code, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def test_in_a_session(self) -> None:
        """In a fetch session, too, aborted transactions come with their records, and only then."""
        self.write(b"a")
        opened = self.client.ask(fetch_request([("t", 0, 0)], session_epoch=0, isolation_level=1), 12)
        self.assertEqual(opened.responses[0].partitions[0].last_stable_offset, 0)
        self.end(False)
        again = fetch_request([], session_id=opened.session_id, session_epoch=1, isolation_level=1)
        (answer,) = self.client.ask(again, 12).responses[0].partitions
        self.assertEqual((aborted(answer), answer.last_stable_offset), ([(7, 0)], 2))
        again = fetch_request([("t", 0, 2)], session_id=opened.session_id, session_epoch=2, isolation_level=1)
        self.assertEqual(self.client.ask(again, 12).responses, [])

    def test_errors_have_none(self) -> None:
        """An error comes without a list."""
        self.assertEqual(self.fetch(9).error_code, ErrorCode.OFFSET_OUT_OF_RANGE)
        self.assertIsNone(aborted(self.fetch(9)))


class LongPollTests(CommittedCase):
    """Long polls at read_committed."""

    def setUp(self) -> None:
        super().setUp()
        self.reader = self.server.connect()

    def ask(self, offset: int, min_bytes: int = 1, session: bool = False) -> None:
        epoch = {"session_epoch": 0} if session else {"session_epoch": -1}
        request = fetch_request([("t", 0, offset)], max_wait_ms=1000, min_bytes=min_bytes, isolation_level=1, **epoch)
        self.reader.send(request, 12)
        self.reader.turn()

    def answer(self) -> Any:
        self.reader.turn()
        answers = self.reader.answers()
        return answers[0].responses[0].partitions[0] if answers else None

    def test_long_polls_and_open_transactions(self) -> None:
        """Records of an open transaction do not wake long polls that cannot read them; its end does."""
        for session in (False, True):
            start = self.server.broker.replication.replicas.get("t", 0).log.log_end_offset
            self.write(b"a", epoch=int(session))
            self.ask(start, session=session)
            with patch.object(type(self.server.broker.replication.reader), "read", side_effect=AssertionError("why?")):
                for n in range(3):
                    self.write(bytes(1000), epoch=int(session), sequence=n + 1)
                    self.client.produce()
                    self.assertIsNone(self.answer())
            self.end(True, epoch=int(session))
            answer = self.answer()
            self.assertEqual(len(list(iter_batches(content(answer)))), 8)

    def test_enough(self) -> None:
        """So many bytes must be there to be read, not only to be there."""
        small = len(a_batch(b"v"))
        self.write(b"v")
        self.write(b"v", producer_id=8)
        self.ask(0, min_bytes=2 * small)
        self.write(bytes(5000), producer_id=8, sequence=1)
        self.end(True)
        self.assertIsNone(self.answer())
        self.end(True, producer_id=8)
        self.assertGreater(len(content(self.answer())), 5000)

    def test_time_runs_out(self) -> None:
        """When its time is over it is answered with what may be read."""
        self.client.produce(a_batch(b"v"))
        self.write(b"a")
        self.ask(0, min_bytes=10_000)
        self.write(bytes(20_000), sequence=1)
        self.assertIsNone(self.answer())
        self.reader.turn(1.1)
        self.assertEqual(len(content(self.answer())), len(a_batch(b"v")))

    def test_leadership_ends(self) -> None:
        """A long poll that waits for a transaction ends at once when the leadership does."""
        self.write(b"a")
        self.ask(0)
        self.server.broker.replication.replicas.get("t", 0).doubt_leadership()
        self.assertEqual(self.answer().error_code, ErrorCode.NOT_LEADER_OR_FOLLOWER)


class ListOffsetsTests(CommittedCase):
    """ListOffsets."""

    def ask(self, timestamp: int, version: int = 11, isolation_level: int = 1) -> Any:
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=isolation_level, topics=[ListOffsetsTopic(name="t", partitions=[asked])]
        )
        return self.client.ask(request, version).topics[0].partitions[0]

    def test_the_end(self) -> None:
        """The end of what is committed is the last stable offset; no record behind it is found by its time."""
        self.client.produce(a_batch(b"a"))
        self.write(b"b")
        self.client.produce(a_batch(b"c", timestamp=NOW_MS + 10))
        for version in (2, 9, 10, 11):
            self.assertEqual([self.ask(-1, version, level).offset for level in (0, 1)], [3, 1])
        self.assertEqual([self.ask(NOW_MS + 5, 11, level).offset for level in (0, 1)], [2, -1])
        self.end(False)
        self.assertEqual([self.ask(-1, 11, level).offset for level in (0, 1)], [4, 4])
        self.assertEqual(self.ask(NOW_MS + 5).offset, 2)

    def test_special_timestamps(self) -> None:
        """Each is known from its version on; nothing is uploaded anywhere."""
        self.client.produce()
        for timestamp, first, offset in ((-3, 7, 0), (-4, 8, 0), (-5, 9, -1), (-6, 11, -1)):
            self.assertEqual(self.ask(timestamp, first - 1).error_code, ErrorCode.UNSUPPORTED_VERSION)
            answer = self.ask(timestamp, first)
            self.assertEqual((answer.error_code, answer.offset), (0, offset))
        self.assertEqual(self.ask(-7).error_code, ErrorCode.UNSUPPORTED_VERSION)


class DescribeProducersTests(CommittedCase):
    """DescribeProducers."""

    def ask(self, *partitions: int, topic: str = "t") -> Any:
        topics = [TopicPartitionIndexes(name=topic, partition_indexes=list(partitions))]
        return self.client.ask(DescribeProducersRequest(topics=topics * 2), 0).topics[0].partitions

    def test_producer_descriptions(self) -> None:
        """Epoch, last sequence and time of each producer, and where its transaction began."""
        self.client.produce(a_batch(b"a", b"b", producer_id=1, producer_epoch=3, base_sequence=5, timestamp=NOW_MS))
        self.write(b"c")
        (answer,) = self.ask(0)
        found = [
            (p.producer_id, p.producer_epoch, p.last_sequence, p.coordinator_epoch, p.current_txn_start_offset)
            for p in answer.active_producers
        ]
        self.assertEqual(found, [(1, 3, 6, -1, -1), (7, 0, 0, -1, 2)])
        self.assertEqual(answer.active_producers[0].last_timestamp, NOW_MS)
        self.end(True)
        (answer,) = self.ask(0)
        self.assertEqual(
            [(p.coordinator_epoch, p.current_txn_start_offset) for p in answer.active_producers], [(-1, -1), (1, -1)]
        )

    def test_not_here(self) -> None:
        """Missing partitions get an error; repeated ones are described once."""
        codes = [(answer.partition_index, answer.error_code) for answer in self.ask(0, 5, 0)]
        self.assertEqual(codes, [(0, 0), (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])

    def test_very_many(self) -> None:
        """Others have their turn while many are described; more than an answer holds is an error that says so."""
        for n in range(9):
            self.write(b"v", producer_id=n)
        self.patch(describe_producers, "SOME", 4)
        self.assertEqual(len(self.ask(0)[0].active_producers), 9)
        self.patch(describe_producers, "MAX_PRODUCERS", 8)
        self.assertEqual([answer.error_code for answer in self.ask(0, 1)], [ErrorCode.INVALID_REQUEST, 0])


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 3), st.integers(1, 40)),
        st.tuples(st.just("plain"), st.just(0), st.integers(1, 40)),
        st.tuples(st.just("commit"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("abort"), st.integers(0, 3), st.just(0)),
    ),
    max_size=60,
)


def read_all(client: Client, most: int) -> tuple[set[int], int]:
    """The offsets of the records that a consumer of what is committed passes on, and where it comes to a stop."""
    passed: set[int] = set()
    offset = 0
    while True:
        answer = client.fetch(offset, isolation_level=1, partition_max_bytes=most)
        told = aborted(answer)
        assert answer.error_code == 0 and told is not None
        assert told == sorted(told, key=lambda one: one[1])
        data = content(answer)
        if not data:
            assert offset == answer.last_stable_offset
            return passed, offset
        dropped: set[int] = set()
        for _, header in iter_batches(data):
            # As clients do it.
            while told and told[0][1] <= header.last_offset:
                dropped.add(told.pop(0)[0])
            if header.control:
                dropped.discard(header.producer_id)
            elif not (header.transactional and header.producer_id in dropped):
                passed.update(range(max(header.base_offset, offset), header.next_offset))
            offset = header.next_offset


class ConsumerTests(SynchronousTestCase):
    @settings(deadline=None, max_examples=50)
    @given(steps, st.integers(1, 1500))
    def test_consumer_reads_committed_records(self, drawn: list[tuple[str, int, int]], most: int) -> None:
        """
        However transactions overlap, and however little is read at a time: a consumer gets exactly the records of
        those that were committed, and of nobody, below the first that is open.
        """
        server = MemoryBroker().start()
        try:
            server.create("t", 1, segment_bytes="2048", index_interval_bytes="256")
            client = server.connect()
            log = server.broker.replication.replicas.get("t", 0).log
            good: set[int] = set()
            open_: dict[int, list[int]] = {}
            epochs = dict.fromkeys(range(4), 0)
            sequences = dict.fromkeys(range(4), 0)
            for what, producer_id, size in drawn:
                at = log.log_end_offset
                if what == "plain":
                    client.produce(a_batch(bytes(size)))
                    good.add(at)
                elif what == "write":
                    write(
                        server,
                        bytes(size * 10),
                        producer_id=producer_id,
                        epoch=epochs[producer_id],
                        sequence=sequences[producer_id],
                    )
                    sequences[producer_id] += 1
                    open_.setdefault(producer_id, []).append(at)
                else:
                    end(server, what == "commit", producer_id, epochs[producer_id])
                    if what == "commit":
                        good.update(open_.pop(producer_id, ()))
                    else:
                        open_.pop(producer_id, None)
            stable = min((offsets[0] for offsets in open_.values()), default=log.log_end_offset)
            passed, stopped = read_all(client, most)
            self.assertEqual((passed, stopped), ({offset for offset in good if offset < stable}, stable))
        finally:
            server.close()
