"""Committed offsets in a compacted log: a load before and after compaction restores the same state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.storage.log import Log
from logbus.storage.settings import CleanerSettings
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from tests.coordination.test_pending_offsets import PRODUCERS, A, B, C, ShardOnDisk, groups, partitions, state
from tests.storage.builders import NOW_S, PARTITION, a_manager

CLEANER = CleanerSettings()
RETENTION_S = 100
COMPACTED = TopicConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=300,
    index_interval_bytes=100,
    segment_ms=2**62,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=RETENTION_S * 1000,
    flush_before_ack=False,
)

steps = st.one_of(
    st.tuples(st.just("commit"), groups, partitions),
    st.tuples(st.just("pend"), st.sampled_from(PRODUCERS), groups, st.lists(partitions, min_size=1, max_size=3)),
    st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.booleans()),
    st.tuples(st.just("delete"), groups, st.lists(partitions, max_size=2)),
    st.tuples(st.just("clean"), st.sampled_from((0, 2 * RETENTION_S))),
)


class CompactedShard:
    """A shard on a log that tests can compact."""

    def __init__(self) -> None:
        self.clock, self.seconds = Clock(), NOW_S
        self.manager = a_manager(
            MemoryDisk(),
            clock=self.clock,
            default_config=COMPACTED,
            wall_clock=lambda: self.seconds,
            cleaner_settings=lambda: CLEANER,
        )
        self.manager.open()
        self.manager.start_housekeeping()
        made: list[Log] = []
        self.manager.create(PARTITION).addCallback(made.append)
        (self.log,) = made
        self.one = ShardOnDisk(self.log)

    def do(self, what: str, *args: Any, number: int = 0) -> None:
        if what == "commit":
            self.one.commit(args[1], number, args[0])
        elif what == "pend":
            self.one.pend(args[0], number, *args[2], group=args[1])
        elif what == "end":
            self.one.end(*args)
        elif what == "delete":
            self.one.delete(*args[1], group=args[0])
        else:
            self.clean(*args)

    def clean(self, seconds: float) -> None:
        self.seconds += seconds
        self.log.high_watermark = self.log.log_end_offset
        self.log.flush()
        self.clock.advance(CLEANER.backoff_ms / 1000)

    def count_records(self) -> int:
        headers = [header for segment in self.log.segments for _, header in segment.batches(0)]
        return sum(header.record_count for header in headers if not header.control)

    def close(self) -> None:
        self.manager.close()


class CompactionTests(SynchronousTestCase):
    """Loads from a compacted log."""

    def test_state_after_compaction(self) -> None:
        """Transactions that were aborted, committed, overwritten or deleted, and an open one."""
        shard = CompactedShard()
        self.addCleanup(shard.close)
        one = shard.one
        for number in range(20):
            one.pend(5, number, A, B)
            one.commit(B, 100 + number)
            one.end(5, committed=number % 4 != 3)
            one.pend(6, number, C)
            one.delete(C)
            one.end(6, committed=True)
        one.pend(7, 1000, A, C)
        expected = state(one.shard)
        self.assertEqual((one.committed(), one.unstable()), ({A: 18, B: 119}, {A, C}))
        self.assertEqual(shard.count_records(), 20 * 5 + 2)
        for _ in range(3):
            shard.clean(2 * RETENTION_S)
        # Of A and B one each, the tombstone of C, and the two that are pending.
        self.assertEqual(shard.count_records(), 5)
        self.assertEqual(state(one.reloaded().shard), expected)
        one.end(7, committed=True)
        self.assertEqual(one.reloaded().committed(), {A: 1000, B: 119, C: 1000})

    def test_random_operations(self) -> None:
        """Random commits and compactions."""
        counts: Counter[str] = Counter()

        @given(st.lists(steps, min_size=20, max_size=60))
        def tell(story: Sequence[tuple[Any, ...]]) -> None:
            shard = CompactedShard()
            try:
                for number, step in enumerate(story):
                    shard.do(*step, number=number)
                    if step[0] == "clean":
                        self.assertEqual(state(shard.one.reloaded().shard), state(shard.one.shard))
                shard.clean(RETENTION_S)
                self.assertEqual(state(shard.one.reloaded().shard), state(shard.one.shard))
                counts["cleanings"] += shard.manager.cleaner.cleanings
            finally:
                shard.close()

        tell()
        self.assertGreater(counts["cleanings"], 20)
