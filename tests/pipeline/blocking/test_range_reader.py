"""Tests reading ranges from brokers that lie, move, restart and lose records."""

from __future__ import annotations

import pickle
import struct
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.pipeline.blocking import EARLIEST, LATEST, Brokers, prefetcher
from logbus.pipeline.blocking.list_offsets import list_offsets
from logbus.pipeline.blocking.prefetcher import FetchOptions
from logbus.pipeline.blocking.range_reader import FetchedRows, read_range
from logbus.pipeline.errors import Disconnected, OffsetLost, Unreachable
from logbus.pipeline.source.arrow import record_batch
from logbus.records.batch import decode_batch, encode_batch, encode_marker_batch, read_header, rewrite_batch
from logbus.records.compression import Codec
from logbus.records.control_records import ControlType, Marker
from logbus.records.record import Record
from logbus.wire.messages.records import LeaderIdAndEpoch
from tests.client.misbehaving_brokers import MISBEHAVIORS, never
from tests.pipeline.socket_cluster import FETCH_BY_ID, SocketCluster

PLACE = TopicPartition("t", 0)
QUICK = FetchOptions(max_wait=0.01)


def values_of(rows: Iterator[FetchedRows]) -> list[tuple[int, bytes]]:
    """Offset and value of each row."""
    found = []
    for some in rows:
        columns = some.columns
        offsets = struct.unpack(f"={columns.rows}q", columns.offsets)
        ends = struct.unpack(f"={columns.rows + 1}i", columns.value_offsets)
        data = bytes(columns.value_data)
        found += [(offset, data[ends[i] : ends[i + 1]]) for i, offset in enumerate(offsets)]
    return found


class FetchingTests(SynchronousTestCase):
    """What a task reads."""

    def cluster(self, **options: object) -> SocketCluster:
        """A cluster with ten batches of three records in ``t-0``."""
        made = SocketCluster(**options)  # type: ignore[arg-type]
        log = made.add("t", 1)[0]
        self.wanted = []
        for number in range(10):
            some = [b"%d-%d" % (number, each) for each in range(3)]
            self.wanted += list(enumerate(some, log.end))
            log.put(*some)
        self.enterContext(made)
        return made

    def client(self, cluster: SocketCluster, **settings: object) -> Brokers:
        """Closed at the end."""
        brokers = cluster.client(**settings)
        self.addCleanup(brokers.close)
        return brokers

    def test_little_is_fetched_beyond_the_range(self) -> None:
        """Requests grow, but what is left of the range bounds them: the rest is another task's."""
        asked: list[int] = []

        class Cluster(SocketCluster):
            def _fetch(self, node: int, message: Any) -> Any:
                asked.append(message.max_bytes)
                return super()._fetch(node, message)

        made = Cluster()
        log = made.add("t", 1)[0]
        for _ in range(40):
            log.put(b"x" * 200_000)
        self.enterContext(made)
        rows = read_range(self.client(made), PLACE, 0, 20, FetchOptions(max_wait=0.01, max_bytes=4 << 20))
        self.assertEqual(len(values_of(rows)), 20)
        # This broker sends one batch each time.
        self.assertEqual(asked[:2], [1 << 20, 2 << 20])
        for number, size in enumerate(asked):
            self.assertLess(size, max((20 - number) * 226_000, 1 << 20 if number == 0 else 0))

    def test_a_range_is_read_exactly(self) -> None:
        """From the first offset on and below the last, wherever in batches these are."""
        brokers = self.client(self.cluster())
        for start, end in ((0, 30), (1, 29), (4, 5), (7, 7), (3, 6)):
            found = values_of(read_range(brokers, PLACE, start, end, QUICK))
            self.assertEqual(found, self.wanted[start:end])

    def test_by_topic_id(self) -> None:
        """Newer brokers are asked for the topic that was meant, not for whatever has its name."""
        cluster = self.cluster(served=FETCH_BY_ID)
        self.assertEqual(values_of(read_range(self.client(cluster), PLACE, 0, 30, QUICK)), self.wanted)
        self.assertEqual({each.topics[0].topic for each in cluster.requests("Fetch")}, {""})

    def test_batch_size(self) -> None:
        """But no batch of the log is cut."""
        brokers = self.client(self.cluster())
        sizes = [each.columns.rows for each in read_range(brokers, PLACE, 0, 30, QUICK, batch_rows=7)]
        self.assertEqual(sizes, [9, 9, 9, 3])
        sizes = [each.columns.rows for each in read_range(brokers, PLACE, 0, 30, QUICK, batch_bytes=1)]
        self.assertEqual(sizes, [3] * 10)

    def test_large_responses(self) -> None:
        """Values that stay in large responses are right, whether results are kept or their buffers used again."""
        cluster = SocketCluster()
        log = cluster.add("t", 1)[0]
        wanted: list[tuple[int, bytes]] = []
        for number in range(8):
            some = [bytes([number * 3 + each]) * 500_000 for each in range(3 if number % 4 else 1)]
            wanted += list(enumerate(some, log.end))
            log.put(*some)
        self.enterContext(cluster)
        brokers = self.client(cluster)
        for _ in range(2):
            self.assertEqual(values_of(read_range(brokers, PLACE, 0, log.end, QUICK)), wanted)
        kept = list(read_range(brokers, PLACE, 0, log.end, QUICK))
        # Small responses are joined; a large one ends a result.
        self.assertEqual([each.columns.rows for each in kept], [4, 3, 3, 4, 3, 3])
        self.assertEqual(values_of(iter(kept)), wanted)

    def test_results_fit_in_what_java_uses_again(self) -> None:
        """With all its columns a result of records of 1 KB has less than 8 MiB, compressed or not."""

        class Cluster(SocketCluster):
            """As many whole batches as were asked for."""

            def _fetch(self, node: int, message: Any) -> Any:
                answer = super()._fetch(node, message)
                begin, size = message.topics[0].partitions[0].fetch_offset, 0
                found = []
                for each in log.batches:
                    if read_header(each).base_offset >= begin and size + len(each) <= message.max_bytes:
                        found.append(each)
                        size += len(each)
                answer.responses[0].partitions[0].records = b"".join(found)
                return answer

        for codec in (Codec.NONE, Codec.LZ4):
            cluster = Cluster()
            log = cluster.add("t", 1)[0]
            for number in range(40):
                log.put(*[b"%04d" % number * 256] * 500, codec=codec)
            self.enterContext(cluster)
            sizes = [
                record_batch(PLACE, some.columns, some.stamped).nbytes
                for some in read_range(self.client(cluster), PLACE, 0, log.end)
            ]
            self.assertGreater(max(sizes), 6 << 20)
            self.assertLess(max(sizes), 8 << 20)

    def test_log_append_times(self) -> None:
        """Batches whose times the broker set do not share rows with others."""
        cluster = SocketCluster()
        log = cluster.add("t", 1)[0]
        for append_time in (None, None, 5, None):
            log.append(encode_batch([Record(0, 1, None, b"x")], log_append_time=append_time))
        self.enterContext(cluster)
        rows = list(read_range(self.client(cluster), PLACE, 0, 4, QUICK))
        self.assertEqual([(each.columns.rows, each.stamped) for each in rows], [(2, False), (1, True), (1, False)])

    def test_committed_records(self) -> None:
        """What was aborted is not read with read_committed, and is without."""
        cluster = SocketCluster()
        log = cluster.add("t", 1)[0]
        log.put(b"kept", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
        log.put(b"dropped", producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)
        log.aborted.append((2, 1))
        log.append(encode_marker_batch(Marker(ControlType.ABORT, 0), producer_id=2, producer_epoch=0, timestamp=1))
        log.append(encode_marker_batch(Marker(ControlType.COMMIT, 0), producer_id=1, producer_epoch=0, timestamp=1))
        log.put(b"after")
        self.enterContext(cluster)
        brokers = self.client(cluster)
        committed = FetchOptions(committed=True, max_wait=0.01)
        self.assertEqual(values_of(read_range(brokers, PLACE, 0, 5, committed)), [(0, b"kept"), (4, b"after")])
        self.assertEqual(
            values_of(read_range(brokers, PLACE, 0, 5, QUICK)), [(0, b"kept"), (1, b"dropped"), (4, b"after")]
        )

    def test_compacted_batches(self) -> None:
        """Offsets that compaction removed leave no rows, and do not end the reading, not even whole batches of them."""
        cluster = SocketCluster()
        log = cluster.add("t", 1)[0]
        for number in range(4):
            log.put(*[b"%d-%d" % (number, each) for each in range(3)])
        for number, kept in ((0, [1]), (1, []), (3, [2])):
            header = read_header(log.batches[number])
            records = decode_batch(log.batches[number])
            log.batches[number] = rewrite_batch(header, [records[each] for each in kept])
        self.enterContext(cluster)
        found = values_of(read_range(self.client(cluster), PLACE, 0, 12, QUICK))
        self.assertEqual(found, [(1, b"0-1"), (6, b"2-0"), (7, b"2-1"), (8, b"2-2"), (11, b"3-2")])

    def test_range_that_compaction_emptied(self) -> None:
        """It has no rows, where the first batch that is left begins at its end, or behind it."""
        cluster = SocketCluster()
        log = cluster.add("t", 1)[0]
        for number in range(4):
            log.put(*[b"%d-%d" % (number, each) for each in range(3)])
        del log.batches[1:3]
        self.enterContext(cluster)
        brokers = self.client(cluster)
        for start, end, rows in ((3, 6, []), (4, 9, []), (2, 8, [(2, b"0-2")]), (5, 10, [(9, b"3-0")])):
            self.assertEqual(values_of(read_range(brokers, PLACE, start, end, QUICK)), rows)

    def test_lies(self) -> None:
        """Whatever a broker answers, late or half or garbled: rows are right, or it is an error; never wrong."""
        for misbehavior in MISBEHAVIORS:
            with self.subTest(misbehavior=misbehavior.__name__):
                cluster = self.cluster()
                brokers = self.client(cluster, request_timeout=0.05)
                cluster.misbehaviors = (misbehavior,)
                found = values_of(read_range(brokers, PLACE, 0, 30, QUICK))
                self.assertEqual(found, self.wanted)
                self.assertTrue(cluster.told)

    def test_damage(self) -> None:
        """A damaged batch is an error that names its offset, after all rows before it."""
        cluster = self.cluster()
        log = cluster.topics["t"][0]
        log.batches[2] = log.batches[2][:-1] + bytes([log.batches[2][-1] ^ 1])
        rows = read_range(self.client(cluster), PLACE, 0, 30, QUICK)
        self.assertEqual(values_of(iter([next(rows)])), self.wanted[:6])
        with self.assertRaises(ApiError) as caught:
            next(rows)
        self.assertIs(caught.exception.code, ErrorCode.CORRUPT_MESSAGE)
        self.assertIn("t-0: offset 6", str(caught.exception))

    def test_the_leader_moves(self) -> None:
        """To another broker, while it is read."""
        cluster = self.cluster(nodes=2)
        brokers = self.client(cluster)
        rows = read_range(brokers, PLACE, 0, 30, FetchOptions(max_wait=0.01, ahead=1), batch_rows=1)
        found = values_of(iter([next(rows)]))
        with cluster.lock:
            cluster.topics["t"][0].leader = 2
        self.assertEqual(found + values_of(rows), self.wanted)
        self.assertEqual({node for node, name, _ in cluster.seen if name == "Fetch"}, {1, 2})

    def test_a_hint_saves_a_question(self) -> None:
        """Where the old leader says who leads now (KIP-951), metadata are not asked for again."""
        cluster = self.cluster(served=FETCH_BY_ID, nodes=2)
        brokers = self.client(cluster)
        brokers.metadata(["t"])
        log = cluster.topics["t"][0]
        log.leader = 2

        def hint(node: int, message: object) -> object:
            answer = SocketCluster._fetch(cluster, node, message)
            for each in answer.responses[0].partitions:
                each.current_leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=5) if each.error_code else None
            return answer

        cluster.answers[1] = hint
        self.assertEqual(values_of(read_range(brokers, PLACE, 0, 30, QUICK)), self.wanted)
        self.assertEqual(len(cluster.requests("Metadata")), 1)

    def test_a_broker_restarts(self) -> None:
        """What is read goes on when it is back."""
        cluster = self.cluster()
        rows = read_range(self.client(cluster), PLACE, 0, 30, FetchOptions(max_wait=0.01, ahead=1), batch_rows=1)
        found = values_of(iter([next(rows)]))
        cluster.down(1)
        timer = threading.Timer(0.15, cluster.up, [1])
        timer.start()
        self.assertEqual(found + values_of(rows), self.wanted)
        timer.join()

    def test_throttling(self) -> None:
        """What is read does not ask again sooner than the broker says."""
        cluster = self.cluster()
        times = []

        def fetch(node: int, message: object) -> object:
            times.append(time.monotonic())
            answer = SocketCluster._fetch(cluster, node, message)
            answer.throttle_time_ms = 30 if len(times) < 4 else 0
            return answer

        cluster.answers[1] = fetch
        self.assertEqual(values_of(read_range(self.client(cluster), PLACE, 0, 30, QUICK)), self.wanted)
        self.assertGreaterEqual(min(later - earlier for earlier, later in pairwise(times[:4])), 0.03)

    def test_preferred_read_replica(self) -> None:
        """It is read from where the leader says so (KIP-392), and the leader again when it goes away."""
        cluster = self.cluster(nodes=2)
        log = cluster.topics["t"][0]
        from_replica = []

        def fetch(node: int, message: object) -> object:
            if node == 2:
                from_replica.append(message)
                if len(from_replica) == 3:
                    cluster.down(2)
            log.leader = node
            answer = SocketCluster._fetch(cluster, node, message)
            log.leader = 1
            for each in answer.responses[0].partitions:
                if node == 1 and not from_replica:
                    each.preferred_read_replica, each.records = 2, b""
            return answer

        cluster.answers[1] = fetch
        near = FetchOptions(max_wait=0.01, rack="east")
        self.assertEqual(values_of(read_range(self.client(cluster), PLACE, 0, 30, near)), self.wanted)
        self.assertEqual(len(from_replica), 3)
        self.assertEqual({each.rack_id for each in cluster.requests("Fetch")}, {"east"})

    def test_patience_ends(self) -> None:
        """Brokers that stay away are an error that names them."""
        cluster = self.cluster()
        brokers = self.client(cluster, retry_timeout=0.1)
        brokers.metadata(["t"])
        cluster.down(1)
        with self.assertRaises((Disconnected, Unreachable)) as caught:
            list(read_range(brokers, PLACE, 0, 30, QUICK))
        self.assertIn(cluster.bootstrap, str(caught.exception))

    def test_expired_offsets(self) -> None:
        """The error has what is wanted and what there is; what came before is read."""
        cluster = self.cluster()
        brokers = self.client(cluster)
        cluster.topics["t"][0].start = 12
        with self.assertRaises(OffsetLost) as caught:
            list(read_range(brokers, PLACE, 3, 30, QUICK))
        error = caught.exception
        self.assertEqual((error.wanted, error.log_start, error.log_end), (3, 12, 30))
        self.assertIn("t-0: offset 3 cannot be read: it has expired", str(error))
        self.assertEqual(str(pickle.loads(pickle.dumps(error))), str(error))

    def test_log_ends_too_early(self) -> None:
        """When no record comes for a while, the rest of the range counts as lost."""
        brokers = self.client(self.cluster(), retry_timeout=0.1)
        with self.assertRaises(OffsetLost) as caught:
            list(read_range(brokers, PLACE, 27, 40, QUICK))
        self.assertEqual(caught.exception.log_end, 30)
        with self.assertRaises(OffsetLost):
            list(read_range(brokers, PLACE, 35, 40, QUICK))

    def test_a_topic_made_anew(self) -> None:
        """Its records are not those that were meant, though its offsets may be the same."""
        self.patch(prefetcher, "_GONE_AFTER", 0.05)
        for served in (None, FETCH_BY_ID):
            cluster = self.cluster(**({} if served is None else {"served": served}))
            brokers = self.client(cluster)
            meant = brokers.metadata(["t"])["t"].topic_id
            old = cluster.topics["t"]
            cluster.anew("t")
            cluster.topics["t"] = old
            brokers.forget("t")
            with self.assertRaises(OffsetLost) as caught:
                list(read_range(brokers, PLACE, 0, 30, QUICK, topic_id=meant))
            self.assertIn("another made with its name", str(caught.exception))

    def test_stale_topic_id(self) -> None:
        """It asks again: the one that is meant may be the new one."""
        cluster = self.cluster()
        brokers = self.client(cluster)
        brokers.metadata(["t"])
        log = cluster.topics["t"]
        cluster.anew("t")
        cluster.topics["t"] = log
        meant = self.client(cluster).metadata(["t"])["t"].topic_id
        self.assertEqual(values_of(read_range(brokers, PLACE, 0, 30, QUICK, topic_id=meant)), self.wanted)

    def test_a_deleted_topic(self) -> None:
        """It counts as deleted when brokers have not known it for a while."""
        self.patch(prefetcher, "_GONE_AFTER", 0.05)
        cluster = self.cluster()
        brokers = self.client(cluster)
        rows = read_range(brokers, PLACE, 0, 30, FetchOptions(max_wait=0.01, ahead=1), batch_rows=1)
        next(rows)
        with cluster.lock:
            del cluster.topics["t"]
        with self.assertRaises(OffsetLost) as caught:
            list(rows)
        self.assertIn("the topic was deleted", str(caught.exception))

    def test_closed_early(self) -> None:
        """Closing it ends the thread at once, though that waits for an answer."""
        cluster = self.cluster()
        asked = threading.Event()

        def third_is_never_answered(node: int, message: object) -> None:
            if len(cluster.requests("Fetch")) == 3:
                cluster.misbehaviors, cluster.about, cluster.share = (never,), frozenset({1}), 1.0
                asked.set()

        cluster.answers[1] = third_is_never_answered
        rows = read_range(self.client(cluster, request_timeout=600), PLACE, 0, 30, QUICK, batch_rows=1)
        next(rows)
        self.assertTrue(asked.wait(300))
        begun = time.monotonic()
        rows.close()
        self.assertLess(time.monotonic() - begun, 300)
        self.assertFalse([each.name for each in threading.enumerate() if each.name.startswith("logbus-fetch")])

    def test_no_more_is_fetched_than_may_wait(self) -> None:
        """A reader that is slow does not make memory grow."""
        cluster = self.cluster()
        options = FetchOptions(max_wait=0.01, ahead=200)
        rows = read_range(self.client(cluster), PLACE, 0, 30, options, batch_rows=1)
        next(rows)
        for _ in range(50):
            threading.Event().wait(0.002)
        self.assertLess(len(cluster.requests("Fetch")), 6)
        rows.close()


class OffsetTests(SynchronousTestCase):
    """Offsets by time."""

    def setUp(self) -> None:
        """Two partitions, on two brokers."""
        self.cluster = SocketCluster(nodes=2)
        self.logs = self.cluster.add("t", 1, 2)
        for log in self.logs.values():
            log.put(b"a", b"b", b"c")
        self.enterContext(self.cluster)
        self.brokers = self.cluster.client()
        self.addCleanup(self.brokers.close)

    def test_offset_requests(self) -> None:
        """Each partition's leader is asked once for all it leads."""
        one, two = TopicPartition("t", 0), TopicPartition("t", 1)
        self.logs[1].start = 1
        found = list_offsets(self.brokers, {one: EARLIEST, two: EARLIEST})
        self.assertEqual({each: at.offset for each, at in found.items()}, {one: 0, two: 1})
        found = list_offsets(self.brokers, {one: LATEST, two: 1001})
        self.assertEqual({each: at.offset for each, at in found.items()}, {one: 3, two: 1})
        self.assertEqual(len(self.cluster.requests("ListOffsets")), 4)

    def test_open_transactions(self) -> None:
        """The end of what is committed is where the first of them begins."""
        one = TopicPartition("t", 0)
        self.logs[0].open_since = 1
        self.assertEqual(list_offsets(self.brokers, {one: LATEST}, committed=True)[one].offset, 1)
        self.assertEqual(list_offsets(self.brokers, {one: LATEST})[one].offset, 3)

    def test_leader_changes(self) -> None:
        """They are looked for, and asked again; partitions that have answered are not."""
        one, two = TopicPartition("t", 0), TopicPartition("t", 1)
        self.brokers.metadata(["t"])
        self.logs[0].leader = 2
        found = list_offsets(self.brokers, {one: LATEST, two: LATEST})
        self.assertEqual({at.offset for at in found.values()}, {3})
        self.assertEqual(len(self.cluster.requests("ListOffsets")), 3)

    def test_missing_topics_and_partitions(self) -> None:
        """The error names it, and what there is."""
        with self.assertRaises(ApiError) as caught:
            list_offsets(self.brokers, {TopicPartition("t", 7): LATEST}, seconds=0.05)
        self.assertIn("topic 't' has no partition 7; it has 0 to 1", str(caught.exception))
        with self.assertRaises(ApiError):
            list_offsets(self.brokers, {TopicPartition("u", 0): LATEST}, seconds=0.05)

    def test_lies(self) -> None:
        """They do not become offsets."""
        for misbehavior in MISBEHAVIORS:
            with self.subTest(misbehavior=misbehavior.__name__):
                self.cluster.misbehaviors = (misbehavior,)
                brokers = self.cluster.client(request_timeout=0.05, retry_timeout=8.0)
                self.addCleanup(brokers.close)
                found = list_offsets(brokers, {TopicPartition("t", 0): LATEST, TopicPartition("t", 1): LATEST})
                self.assertEqual([at.offset for at in found.values()], [3, 3])
