"""Tests what loads know of a table, and its JSON."""

from __future__ import annotations

import json
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.load_state import LoadChange, LoadState, TopicOffsets
from logbus.pipeline.lake.offset_set import OffsetSet

RANGES = st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)).map(lambda pair: (min(pair), max(pair))))
OFFSETS = st.dictionaries(st.integers(0, 2**31 - 1), RANGES.map(lambda ranges: OffsetSet.of(*ranges)), max_size=3)
TOPICS = st.dictionaries(st.text(), st.builds(TopicOffsets, st.text(), OFFSETS), max_size=3)
STATES = st.builds(
    LoadState,
    offsets=TOPICS,
    lost=TOPICS,
    schema=st.none() | st.dictionaries(st.text(), st.text() | st.booleans()),
    batches=st.dictionaries(st.text(), st.integers(0, 2**62)),
)


def _topic(*ranges: tuple[int, int], topic_id: str = "one") -> dict[str, TopicOffsets]:
    return {"t": TopicOffsets(topic_id, {0: OffsetSet.of(*ranges)})}


class LoadStateTests(TestCase):
    """States, their changes, and their documents."""

    @given(STATES)
    def test_round_trip(self, state: LoadState) -> None:
        """What is read is what was written."""
        self.assertEqual(LoadState.from_json("x", state.as_json()), state)

    @given(STATES, st.data())
    def test_damaged_documents(self, state: LoadState, data: st.DataObject) -> None:
        """A document that is cut, lacks a member or is of a newer format is an error with its name."""
        text = state.as_json()
        cut = data.draw(st.integers(0, len(text) - 1))
        document = json.loads(text)
        member = data.draw(st.sampled_from(sorted(document)))
        lacking = json.dumps({name: value for name, value in document.items() if name != member}).encode()
        newer = json.dumps({**document, "format": 2}).encode()
        for bad in (text[:cut], lacking, newer):
            with self.assertRaisesRegex(LakeError, "^here is "):
                LoadState.from_json("here", bad)

    def test_changes(self) -> None:
        """Loaded and lost offsets are both held; a batch's number replaces the query's last."""
        state = LoadState().after(LoadChange(offsets=_topic((0, 5)), schema={"type": "struct"}, batch=("q", 1)))
        state = state.after(LoadChange(lost=_topic((5, 7)), batch=("r", 3))).after(LoadChange(batch=("q", 2)))
        self.assertEqual(state.held("t", 0), OffsetSet.of((0, 7)))
        self.assertEqual((state.held("t", 1), state.held("u", 0)), (OffsetSet(), OffsetSet()))
        self.assertEqual(state.lost, _topic((5, 7)))
        self.assertEqual((state.schema, state.batches), ({"type": "struct"}, {"q": 2, "r": 3}))

    def test_contradictions(self) -> None:
        """No offset is loaded or lost twice, no batch is written twice, and no topic changes its id."""
        state = LoadState().after(LoadChange(offsets=_topic((0, 5)), batch=("q", 3)))
        for change, words in (
            (LoadChange(offsets=_topic((4, 6))), r"^t-0: offsets \(\(4, 5\),\) are in the table already"),
            (LoadChange(lost=_topic((0, 1))), r"^t-0: offsets \(\(0, 1\),\) are in the table already"),
            (LoadChange(offsets=_topic((5, 6), topic_id="two")), "deleted and created again"),
            (LoadChange(batch=("q", 3)), "^batch 3 of the query q is in the table already"),
            (LoadChange(batch=("q", 2)), "^batch 2 of the query q is in the table already"),
        ):
            with self.subTest(words), self.assertRaisesRegex(LakeError, words):
                state.after(change)
