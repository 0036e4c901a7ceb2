"""Tests of :mod:`logbus.coordination.coordinator_partition`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.coordinator_partition import java_hash, partition_for


class PlacementTests(SynchronousTestCase):
    """The results are Kafka's."""

    def test_hashes_are_java_s(self) -> None:
        """Texts hash as in Java, in 32 bits with a sign, characters beyond 16 bits as their surrogates."""
        for text, expected in {
            "": 0,
            "a": 97,
            "Aa": 2112,
            "BB": 2112,
            "group": 98629247,
            "hello": 99162322,
            "hello world": 1794106052,
            "polygenelubricants": -(2**31),
            "é": 233,
            "😀": 1772899,
        }.items():
            self.assertEqual(java_hash(text), expected, text)

    def test_the_partition(self) -> None:
        """The absolute value picks the partition; the number that has none picks 0."""
        self.assertEqual(partition_for("hello", 50), 22)
        self.assertEqual(partition_for("hello world", 50), 2)
        self.assertEqual(partition_for("polygenelubricants", 50), 0)
        self.assertEqual(partition_for("group", 50), 47)

    @given(st.text(), st.integers(1, 1000))
    def test_every_name_has_a_place(self, text: str, partitions: int) -> None:
        """Any group id, also with lone surrogates, maps to an existing partition."""
        self.assertIn(partition_for(text, partitions), range(partitions))
