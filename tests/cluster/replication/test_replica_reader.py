"""Fetches that are answered at once, and fetches that wait."""

from __future__ import annotations

import struct
from typing import Any

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.replication.delayed_fetch import DelayedFetch
from logbus.cluster.replication.partition_fetch import (
    FetchParams,
    PartitionFetch,
    PartitionFetchResult,
    SessionlessFetchContext,
)
from logbus.cluster.replication.replication_throttle import ReplicationThrottle
from logbus.errors import ErrorCode
from logbus.model import NO_EPOCH, LeaderAndIsr
from logbus.records.header import first_offset
from logbus.testing.simulation.environment.memory_disk import broken
from tests.handlers.kit import NOW_MS, MemoryBroker, a_batch


class ReadCase(SynchronousTestCase):
    """A broker with a topic ``t`` of three partitions, and its reader."""

    def setUp(self) -> None:
        self.server = MemoryBroker().start()
        self.addCleanup(self.server.close)
        self.server.create("t", 3)
        self.clock = self.server.reactor
        self.replicas = self.server.broker.replication.replicas
        self.purgatory = self.server.broker.replication.purgatory

    def fetch(self, *wants: PartitionFetch, wait: int = 1000, least: int = 1, most: int = 1 << 20) -> Any:
        return self.server.broker.replication.reader.fetch(
            SessionlessFetchContext(self.replicas, wants or [PartitionFetch("t", 0, 0, 1 << 20)]),
            min_bytes=least,
            max_bytes=most,
            max_wait_ms=wait,
            fetch_params=FetchParams(),
        )

    def append(self, partition: int = 0, size: int = 1) -> int:
        return self.replicas.get("t", partition).append(a_batch(bytes(size)), NOW_MS).size

    def assertLeft(self) -> None:
        """Nobody waits or watches any more, and no timer runs."""
        self.assertEqual((len(self.purgatory), self.server.watchers), (0, 0))
        self.assertFalse(
            [call for call in self.clock.getDelayedCalls() if getattr(call.func, "__name__", "") == "complete"]
        )

    def wait_for(self, deferred: Deferred[list[PartitionFetchResult]]) -> list[PartitionFetchResult]:
        self.clock.advance(0)
        return self.successResultOf(deferred)


class ImmediateResponseTests(ReadCase):
    """Fetches that are answered at once."""

    def test_enough(self) -> None:
        """As many bytes as were asked for are there."""
        size = self.append()
        (got,) = self.fetch(least=size)
        self.assertEqual((len(got.data), got.high_watermark), (size, 1))

    def test_no_time(self) -> None:
        """A fetch with no time to wait, or a negative one, is answered with nothing."""
        for wait in (0, -1):
            (got,) = self.fetch(wait=wait)
            self.assertIsNone(got.data)

    def test_no_partitions(self) -> None:
        """A fetch without partitions does not wait."""
        source = SessionlessFetchContext(self.replicas, [])
        got = self.server.broker.replication.reader.fetch(
            source, min_bytes=1, max_bytes=1, max_wait_ms=9999, fetch_params=FetchParams()
        )
        self.assertEqual(got, [])

    def test_errors_are_not_waited_for(self) -> None:
        """A partition in trouble is told at once, next to those that are well."""
        good, missing, beyond = (
            PartitionFetch("t", 0, 0, 100),
            PartitionFetch("no", 0, 0, 100),
            PartitionFetch("t", 1, 7, 100),
        )
        got = self.fetch(good, missing, beyond)
        codes = [one.error.code if one.error else None for one in got]
        self.assertEqual(codes, [None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OFFSET_OUT_OF_RANGE])

    def test_failing_disk(self) -> None:
        """A log that cannot be read is KAFKA_STORAGE_ERROR for its partition."""
        self.append()
        replica = self.replicas.get("t", 0)
        self.server.disks[0].fail(broken())  # type: ignore[arg-type]
        (got,) = self.fetch()
        self.assertEqual(got.error.code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertFalse(replica.partition.is_leader)


class PartialResponseTests(ReadCase):
    """A fetch that stopped short of what is there is answered at once: waiting would bring it nothing more."""

    SEGMENTS = 5

    def setUp(self) -> None:
        super().setUp()
        # Room for one batch of this size in each segment.
        self.server.create("small", 2, segment_bytes="300")
        for partition in (0, 1):
            for _ in range(self.SEGMENTS):
                self.replicas.get("small", partition).append(a_batch(bytes(200)), NOW_MS)
        self.assertEqual(len(self.replicas.get("small", 0).log.segments), self.SEGMENTS)

    def read(self, *wants: PartitionFetch, least: int = 100_000, most: int = 1 << 20, **fetch_params: Any) -> Any:
        return self.server.broker.replication.reader.fetch(
            SessionlessFetchContext(self.replicas, wants, to_log_end="broker_id" in fetch_params),
            min_bytes=least,
            max_bytes=most,
            max_wait_ms=2000,
            fetch_params=FetchParams(**fetch_params),
        )

    def follow(self) -> int:
        """Have broker 8 follow ``small-0``; the leader epoch."""
        replica = self.replicas.get("small", 0)
        given = LeaderAndIsr(leader=0, leader_epoch=replica.partition.leader_epoch + 1, isr=(0,))
        replica.take_role(given, (0, 8))
        return given.leader_epoch

    def assert_read_at_full_speed(self, *before: PartitionFetch, epoch: int = NO_EPOCH, **fetch_params: Any) -> None:
        """Each fetch but the last, which is at the log's end, is answered without a wait."""
        offset = 0
        for _ in range(self.SEGMENTS - 1):
            got = self.read(*before, PartitionFetch("small", 0, offset, 1 << 20, epoch), **fetch_params)
            self.assertIsInstance(got, list)
            offset += 1
            data = got[-1].data
            self.assertEqual((data.length, got[-1].error), (len(a_batch(bytes(200))), None))
        last = self.read(*before, PartitionFetch("small", 0, offset, 1 << 20, epoch), **fetch_params)
        self.assertNoResult(last)
        self.clock.advance(2)
        self.assertIsNotNone(self.successResultOf(last)[-1].data)

    def test_small_segments(self) -> None:
        """The end of a segment is not the end of the log."""
        self.assert_read_at_full_speed()

    def test_in_several_partitions(self) -> None:
        """One partition that has more is enough, whatever the others have."""
        self.assert_read_at_full_speed(PartitionFetch("t", 0, 0, 1 << 20), PartitionFetch("t", 1, 0, 1 << 20))

    def test_read_committed(self) -> None:
        """The same up to the last stable offset."""
        self.assert_read_at_full_speed(committed=True)

    def test_read_committed_before_an_open_transaction(self) -> None:
        """What lies behind an open transaction is not more to read: there the fetch waits."""
        for _ in range(3):
            batch = a_batch(bytes(200), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
            self.replicas.get("small", 0).append(batch, NOW_MS)
        self.assert_read_at_full_speed(committed=True)

    def test_follower(self) -> None:
        """Followers read to the log's end."""
        self.assert_read_at_full_speed(broker_id=8, broker_epoch=1, epoch=self.follow())

    def test_throttled_follower(self) -> None:
        """A follower that gets no records because of the throttle waits."""
        epoch = self.follow()
        partitions = self.server.broker.replication.reader.partitions
        self.patch(partitions, "throttle", Throttled())
        self.assertNoResult(self.read(PartitionFetch("small", 0, 0, 1 << 20, epoch), broker_id=8, broker_epoch=1))

    def test_a_partition_is_full(self) -> None:
        """Whole batches are given; what is left of the room for a partition is no reason to wait."""
        for _ in range(4):
            self.append(2, 100)
        size = len(a_batch(bytes(100)))
        got = self.read(PartitionFetch("t", 2, 0, 2 * size + 1))
        self.assertEqual(len(got[0].data), 2 * size)

    def test_the_next_partition_does_not_fit(self) -> None:
        """A batch for which there is no room any more comes first in the next answer, which is not to wait."""
        size = self.append(0, 100)
        self.append(1, 100)
        got = self.read(PartitionFetch("t", 0, 0, 1 << 20), PartitionFetch("t", 1, 0, 1 << 20), most=size + 1)
        self.assertEqual([one.data is None for one in got], [False, True])

    def test_woken(self) -> None:
        """A fetch that waits at the log's end is answered when enough came, though in several segments."""
        batch = a_batch(bytes(200))
        for committed in (False, True):
            replica = self.replicas.get("small", 0)
            waiting = self.read(
                PartitionFetch("small", 0, replica.high_watermark, 1 << 20), least=3 * len(batch), committed=committed
            )
            for _ in range(3):
                self.assertNoResult(waiting)
                replica.append(batch, NOW_MS)
            self.assertEqual(len(self.wait_for(waiting)[0].data or ()), len(batch))

    def test_compacted(self) -> None:
        """In a compacted topic offsets are missing, at the end of segments, too."""
        replica = self.replicas.get("t", 2)
        replica.configure(attrs.evolve(replica.log.config, segment_bytes=300, cleanup_policy=frozenset({"compact"})))
        replica.take_role(LeaderAndIsr(leader=9, leader_epoch=1, isr=(0, 9)))
        kept = (0, 3, 4, 11, 20)
        for offset in kept:
            replica.follow(stored(a_batch(bytes(200)), offset, 1), offset + 1)
        replica.take_role(LeaderAndIsr(leader=0, leader_epoch=2, isr=(0,)))
        offset = 0
        for one in kept[:-1]:
            got = self.read(PartitionFetch("t", 2, offset, 1 << 20))
            self.assertIsInstance(got, list)
            self.assertEqual(first_offset(got[0].data.read()), one)
            offset = one + 1
        self.assertNoResult(self.read(PartitionFetch("t", 2, offset, 1 << 20)))


def stored(batch: bytes, offset: int, leader_epoch: int) -> bytes:
    """A batch as it is in a log at some offset."""
    data = bytearray(batch)
    struct.pack_into(">q", data, 0, offset)
    struct.pack_into(">i", data, 12, leader_epoch)
    return bytes(data)


class Throttled(ReplicationThrottle):
    """Holds everybody back."""

    def is_throttled(self, replica: Any, follower: Any) -> bool:
        return True


class LongPollTests(ReadCase):
    """Long polls."""

    def test_time_runs_out(self) -> None:
        """After max_wait_ms the answer is what there is: nothing; and nothing stays behind."""
        waiting = self.fetch(wait=500)
        self.clock.advance(0.499)
        self.assertNoResult(waiting)
        self.assertEqual((len(self.purgatory), self.server.watchers), (1, 1))
        self.clock.advance(0.001)
        (got,) = self.successResultOf(waiting)
        self.assertIsNone(got.data)
        self.assertLeft()

    def test_woken(self) -> None:
        """The record that comes ends the wait within the turn."""
        waiting = self.fetch(wait=60_000)
        self.append()
        self.assertNoResult(waiting)
        (got,) = self.wait_for(waiting)
        self.assertEqual(got.high_watermark, 1)
        self.assertIsNotNone(got.data)
        self.assertLeft()

    def test_min_bytes(self) -> None:
        """Less than min_bytes does not end the wait; what is there at its end is answered."""
        size = self.append()
        waiting = self.fetch(least=3 * size)
        self.append()
        self.clock.advance(0.1)
        self.assertNoResult(waiting)
        self.append()
        (got,) = self.wait_for(waiting)
        self.assertEqual(len(got.data or ()), 3 * size)
        late = self.fetch(least=100 * size)
        self.clock.advance(1)
        (got,) = self.successResultOf(late)
        self.assertEqual(len(got.data or ()), 3 * size)
        self.assertLeft()

    def test_min_bytes_over_partitions(self) -> None:
        """min_bytes is of the whole answer."""
        size = self.append(2)
        waiting = self.fetch(*(PartitionFetch("t", n, 0, 1 << 20) for n in range(3)), least=3 * size)
        self.append(0)
        self.append(1)
        got = self.wait_for(waiting)
        self.assertEqual([len(one.data or ()) for one in got], [size] * 3)

    def test_min_bytes_above_max_bytes(self) -> None:
        """min_bytes above max_bytes waits for max_bytes only."""
        size = self.append()
        self.assertIsInstance(self.fetch(least=1 << 31, most=size), list)

    def test_one_read_for_many_appends(self) -> None:
        """A hundred appends in one turn wake a waiting fetch once."""
        waiting = self.fetch(least=50_000)
        looks: list[DelayedFetch] = []
        original = DelayedFetch.is_ready

        def is_ready(delayed: DelayedFetch) -> bool:
            looks.append(delayed)
            return original(delayed)

        self.patch(DelayedFetch, "is_ready", is_ready)
        for _ in range(100):
            self.append(0, 1000)
        self.assertEqual(looks, [])
        self.wait_for(waiting)
        self.assertEqual(len(looks), 1)

    def test_cancelled(self) -> None:
        """A client that goes away leaves nothing behind."""
        waiting = self.fetch(*(PartitionFetch("t", n, 0, 1 << 20) for n in range(3)))
        self.assertEqual(self.server.watchers, 3)
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.assertLeft()
        self.append()
        self.clock.advance(5)

    def test_cancelled_when_woken_already(self) -> None:
        """Going away in the turn in which the records came is no trouble."""
        waiting = self.fetch()
        self.append()
        waiting.cancel()
        self.clock.advance(0)
        self.failureResultOf(waiting, CancelledError)
        self.assertLeft()

    def test_partition_deleted(self) -> None:
        """Deleting a topic ends the waits for it, with an error, however much was waited for."""
        waiting = self.fetch(least=1 << 31, most=1 << 31)
        self.server.now(self.server.broker.control.topic_admin.delete_topics(["t"]))
        (got,) = self.wait_for(waiting)
        self.assertEqual(got.error.code if got.error else None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.assertLeft()

    def test_leadership_lost(self) -> None:
        """Fetches that wait at a replica that stops leading are answered, so that clients look for the leader."""
        waiting = self.fetch(wait=60_000)
        self.replicas.get("t", 0).take_role(LeaderAndIsr(leader=3, leader_epoch=1, isr=(3,)))
        (got,) = self.wait_for(waiting)
        self.assertEqual(got.error.code if got.error else None, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def test_disk_failure_during_a_wait(self) -> None:
        """Fetches that wait at a log whose directory fails get an error."""
        waiting = self.fetch(wait=60_000)
        self.server.disks[0].fail(broken())  # type: ignore[arg-type]
        (got,) = self.wait_for(waiting)
        self.assertEqual(got.error.code if got.error else None, ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertLeft()

    def test_a_disconnect(self) -> None:
        """The connection's end cancels what waits on it."""
        from tests.handlers.kit import fetch_request

        client = self.server.connect()
        client.send(fetch_request([("t", 0, 0), ("t", 1, 0)], max_wait_ms=60_000), 12)
        self.assertEqual((len(self.purgatory), self.server.watchers), (1, 2))
        client.transport.loseConnection()
        self.assertLeft()
        self.assertEqual(self.server.broker.kafka_server.net_metrics.requests_pending, 0)
