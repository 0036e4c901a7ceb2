"""Tests the JSON of partitions and offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.model import TopicPartition
from logbus.pipeline.source.offsets_json import offsets_from_json, offsets_to_json, read_offsets, read_partitions

TOPICS = st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True)


PARTITIONS = st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1))


class OffsetsJsonTests(SynchronousTestCase):
    """Offsets in JSON."""

    @given(st.dictionaries(PARTITIONS, st.integers(-2, 2**63 - 1), max_size=8))
    def test_round_trip(self, offsets: dict[TopicPartition, int]) -> None:
        """The same again, in whatever order it was."""
        import json

        backwards = dict(sorted(offsets.items(), reverse=True))
        self.assertEqual(json.dumps(offsets_to_json(offsets)), json.dumps(offsets_to_json(backwards)))
        self.assertEqual(offsets_from_json(offsets_to_json(offsets), -2), offsets)

    @given(st.text() | st.from_regex(r'\{"t": ?[\[{].{0,20}[\]}]\}', fullmatch=True))
    def test_arbitrary_json(self, text: str) -> None:
        """There is no other outcome."""
        for reader in (lambda: read_offsets(text, -2), lambda: read_partitions(text)):
            try:
                found = reader()
            except ValueError:
                continue
            self.assertTrue(all(each.partition >= 0 for each in found))
