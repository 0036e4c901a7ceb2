"""Tests of :mod:`logbus.cli.groups.offset_target`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.groups.offset_target import parse_duration, parse_scope
from logbus.coordination.offset_target import OffsetTarget, PartitionBounds, TargetKind, resolve_target
from logbus.errors import LogbusError
from logbus.model import TopicPartition

P0 = TopicPartition("orders", 0)
HOUR = 3_600_000


class ResolveTargetTests(SynchronousTestCase):
    """The offset that a target gives."""

    def test_each_kind(self) -> None:
        """
        From 60, in a partition that keeps 10 to 100 and whose first record after the time is 40.
        """
        bounds = PartitionBounds(10, 100, 40)
        for target, expected in (
            (OffsetTarget(TargetKind.EARLIEST), 10),
            (OffsetTarget(TargetKind.LATEST), 100),
            (OffsetTarget(TargetKind.CURRENT), 60),
            (OffsetTarget(TargetKind.OFFSET, 77), 77),
            (OffsetTarget(TargetKind.SHIFT, -5), 55),
            (OffsetTarget(TargetKind.SHIFT, 5), 65),
            (OffsetTarget(TargetKind.TIME, 12345), 40),
        ):
            change = resolve_target(P0, target, 60, bounds, "note")
            self.assertEqual((change.old, change.new, change.note, change.metadata), (60, expected, "", "note"), target)

    def test_targets_out_of_range(self) -> None:
        """A target outside of the log becomes the nearest offset in it, and the change says so."""
        for target, old, expected, note in (
            (OffsetTarget(TargetKind.OFFSET, 5), None, 10, "5 is before the first that is kept"),
            (OffsetTarget(TargetKind.OFFSET, 101), None, 100, "101 is behind the end"),
            (OffsetTarget(TargetKind.SHIFT, -60), 60, 10, "0 is before the first that is kept"),
            (OffsetTarget(TargetKind.SHIFT, 60), 60, 100, "120 is behind the end"),
            (OffsetTarget(TargetKind.CURRENT), 3, 10, "3 is before the first that is kept"),
            (OffsetTarget(TargetKind.CURRENT), None, 100, "nothing is committed: the end"),
            (OffsetTarget(TargetKind.TIME, 1), 60, 100, "no record is so late: the end"),
        ):
            change = resolve_target(P0, target, old, PartitionBounds(10, 100))
            self.assertEqual((change.new, change.note), (expected, note), target)

    def test_shift_without_an_offset(self) -> None:
        """A missing offset cannot be shifted; the error says what to do instead."""
        error = self.assertRaises(
            LogbusError, resolve_target, P0, OffsetTarget(TargetKind.SHIFT, 1), None, PartitionBounds(0, 10)
        )
        for part in ("orders-0", "--topic orders:PARTITION", "--to-offset"):
            self.assertIn(part, str(error))

    @given(
        st.sampled_from(TargetKind),
        st.integers(-(2**63), 2**63),
        st.integers(0, 2**62) | st.none(),
        st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)).map(sorted),
        st.data(),
    )
    def test_always_inside(
        self, to: TargetKind, value: int, old: int | None, ends: list[int], data: st.DataObject
    ) -> None:
        """
        Whatever is asked for, the offset is one that the partition has; and another than asked for is explained.
        """
        start, end = ends
        at_time = data.draw(st.just(-1) | st.integers(start, end))
        if to is TargetKind.SHIFT and old is None:
            return
        change = resolve_target(P0, OffsetTarget(to, value), old, PartitionBounds(start, end, at_time))
        self.assertTrue(start <= change.new <= end)
        if to is TargetKind.OFFSET:
            self.assertEqual(bool(change.note), change.new != value)


class WritingTests(SynchronousTestCase):
    """Parsing of time spans and partitions."""

    def test_spans(self) -> None:
        """
        Numbers with units, or as ISO 8601 has it.
        """
        for text, expected in (
            ("1h30m", 90 * 60_000),
            ("250ms", 250),
            ("2d", 48 * HOUR),
            ("1w", 7 * 24 * HOUR),
            ("PT1H30M", 90 * 60_000),
            ("P7D", 7 * 24 * HOUR),
            ("P1DT2H", 26 * HOUR),
            ("pt0.25s", 250),
            ("P2W", 14 * 24 * HOUR),
            ("0s", 0),
        ):
            self.assertEqual(parse_duration(text), expected, text)

    def test_invalid_spans(self) -> None:
        """The error quotes the text, and says what would be valid."""
        for text in ("", "P", "PT", "1", "1x", "-1h", "1h ", "P1M", "P1DT", "1.5h", "h", "١h", "9" * 40 + "d"):
            error = str(self.assertRaises(LogbusError, parse_duration, text))
            self.assertIn(repr(text), error)
            self.assertIn("1h30m", error)

    def test_scopes(self) -> None:
        """
        A topic, or some of its partitions, in order and each once.
        """
        self.assertEqual(parse_scope("orders"), ("orders", None))
        self.assertEqual(parse_scope("orders:2,0,2"), ("orders", (0, 2)))

    def test_invalid_scopes(self) -> None:
        """Invalid topic names, and partitions that are not numbers."""
        for text in ("", ":1", "a b", "orders:", "orders:x", "orders:-1", "orders:1,", "orders:²", "orders:2147483648"):
            self.assertRaises(LogbusError, parse_scope, text)
