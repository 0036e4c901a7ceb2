"""Which records may begin, and what may be committed: :mod:`logbus.client.consumer.work_ledger`."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.consumer.work_ledger import Work, WorkLedger
from logbus.model import TopicPartition

PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1)]


def work(partition: TopicPartition, offset: int, order: bytes | None = None, size: int = 0) -> Work:
    return Work(partition, ConsumerRecord("t", partition.partition, offset, -1, order, None, ()), order, size)


#: Take a record of a partition with a key; begin; end the n-th with or without success; withdraw; drop.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 1), st.sampled_from([None, b"a", b"b", b"c"])),
        st.tuples(st.just("begin"), st.just(0), st.none()),
        st.tuples(st.just("end"), st.integers(0, 5), st.sampled_from([None, b"failed"])),
        st.tuples(st.just("withdraw"), st.integers(0, 1), st.none()),
        st.tuples(st.just("drop"), st.integers(0, 1), st.none()),
    ),
    max_size=60,
)


class WorkLedgerTests(SynchronousTestCase):
    @given(STEPS, st.integers(1, 4))
    def test_any_course(self, steps: list[tuple[str, int, bytes | None]], concurrency: int) -> None:
        """
        Whatever happens: one record of a key is under way, in the order of offsets; no more than allowed; nothing waits
        that could begin; and what may be committed is below each unfinished record.
        """
        ledger: WorkLedger = WorkLedger(concurrency, 1000, 1000)
        offsets = dict.fromkeys(PARTITIONS, 0)
        waiting: list[Work] = []
        running: list[Work] = []
        unfinished: list[Work] = []
        for step, number, key in steps:
            if step == "add":
                partition = PARTITIONS[number]
                one = work(partition, offsets[partition], key)
                offsets[partition] += 1
                ledger.add(one)
                waiting.append(one)
                unfinished.append(one)
            elif step == "begin":
                busy = {(each.partition, each.order) for each in running if each.order is not None}
                may = [each for each in waiting if (each.partition, each.order) not in busy]
                found = ledger.begin()
                self.assertEqual(found is None, not may or len(running) == concurrency)
                if found is not None:
                    self.assertIn(found, may)
                    before = [each for each in waiting if each is not found and each.partition == found.partition]
                    if found.order is not None:
                        earlier = [e for e in before if e.order == found.order]
                        self.assertTrue(all(e.record.offset > found.record.offset for e in earlier))
                    waiting.remove(found)
                    running.append(found)
            elif step == "end" and running:
                found = running.pop(number % len(running))
                ledger.end(found, is_finished=key is None)
                if key is None and found in unfinished:
                    unfinished.remove(found)
            elif step in ("withdraw", "drop"):
                waiting = [each for each in waiting if each.partition != PARTITIONS[number]]
                if step == "drop":
                    ledger.drop([PARTITIONS[number]])
                    unfinished = [each for each in unfinished if each.partition != PARTITIONS[number]]
                    self.assertTrue(all(e.is_dropped for e in running if e.partition == PARTITIONS[number]))
                else:
                    ledger.withdraw([PARTITIONS[number]])
            self.assertEqual(list(ledger.under_way), running)
            self.assertEqual(ledger.room, 1000 - len(waiting) - len(running))
            for partition in PARTITIONS:
                mine = [each.record.offset for each in unfinished if each.partition == partition]
                lowest = ledger.unfinished(partition)
                self.assertEqual(None if lowest is None else lowest.record.offset, min(mine, default=None))
                self.assertEqual(partition in ledger.partitions, bool(mine))
        while running or waiting:
            while (found := ledger.begin()) is not None:
                waiting.remove(found)
                running.append(found)
            self.assertTrue(running)
            ledger.end(running.pop(), is_finished=True)
        self.assertEqual((ledger.room, ledger._behind), (1000, {}))

    def test_room(self) -> None:
        """Records and bytes are bounded, and one record is always admitted."""
        ledger: WorkLedger = WorkLedger(4, 3, 100)
        self.assertEqual(ledger.room, 3)
        ledger.add(work(PARTITIONS[0], 0, size=1000))
        self.assertEqual(ledger.room, 0)
        found = ledger.begin()
        assert found is not None
        ledger.end(found, is_finished=True)
        ledger.add(work(PARTITIONS[0], 1, size=10))
        self.assertEqual(ledger.room, 2)
