"""Tests of :mod:`logbus.cli.groups.znode_offsets`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.groups.offset_file import SavedOffset
from logbus.cli.groups.znode_offsets import is_lines, read_lines, write_lines
from logbus.errors import LogbusError
from logbus.model import TopicPartition

names = st.text("abc/:.-_ä ", min_size=1, max_size=8).filter(lambda text: text == text.strip())
topics = st.text("abc.-_", min_size=1, max_size=8)
partitions = st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1))
offsets = st.builds(SavedOffset, st.integers(0, 2**63 - 1))
saved = st.dictionaries(names, st.dictionaries(partitions, offsets, min_size=1, max_size=4), max_size=4)


class LineTests(SynchronousTestCase):
    """Lines as Kafka's tools write and read them."""

    @given(saved)
    def test_round_trip(self, groups: dict[str, dict[TopicPartition, SavedOffset]]) -> None:
        """What was written is read."""
        data = write_lines(groups).encode()
        self.assertEqual(read_lines(data, "f"), groups)
        self.assertEqual(is_lines(data), bool(groups))

    def test_line(self) -> None:
        """The line itself; blank lines and Windows' line ends are nothing."""
        offsets = {TopicPartition("orders", 0): SavedOffset(42, "note")}
        self.assertEqual(write_lines({"billing": offsets}), "/consumers/billing/offsets/orders/0:42\n")
        read = read_lines(b"\n/consumers/billing/offsets/orders/0:42\r\n\r\n", "f")
        self.assertEqual(read, {"billing": {TopicPartition("orders", 0): SavedOffset(42)}})

    def test_wrong(self) -> None:
        """One line says which is wrong, and what would be right."""
        good = b"/consumers/g/offsets/t/0:4\n"
        for data, words in (
            (good + b"/consumers/g/offsets/t/x:4", "f, line 2: '/consumers/g/offsets/t/x:4' is not /consumers/GROUP/"),
            (good + b"/consumers/g/offsets/t/0:-4", "line 2"),
            (good + b"/consumers/g/offsets/t/0-1:4", "is of Kafka 0.7"),
            (good + good, "line 2: t-0 of group 'g' is there already"),
            (b"/consumers/g/offsets/t/0:9223372036854775808", "an offset 9223372036854775807"),
            (b"/consumers/g/offsets/t/2147483648:1", "a partition is at most 2147483647"),
            (b"/consumers/\xff", "is not UTF-8 at byte 11"),
        ):
            self.assertIn(words, str(self.assertRaises(LogbusError, read_lines, data, "f")))
        broken = {"a\nb": {TopicPartition("t", 0): SavedOffset(1)}}
        self.assertIn("line break", str(self.assertRaises(LogbusError, write_lines, broken)))

    @given(st.binary(max_size=60), st.sampled_from([b"", b"/consumers/g/offsets/t/0:4\n"]))
    def test_anything(self, data: bytes, before: bytes) -> None:
        """Other bytes are read or refused."""
        try:
            read_lines(before + data, "f")
        except LogbusError as e:
            self.assertTrue(str(e).startswith("f"))
