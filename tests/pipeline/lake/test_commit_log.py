"""Tests commits, snapshots and the state they result in."""

from __future__ import annotations

from unittest import TestCase

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.commit_log import Commit, CommitKind, DataFile, TableState
from logbus.pipeline.lake.load_state import TopicOffsets
from logbus.pipeline.lake.offset_set import OffsetSet


def _load(number: int, start: int, end: int, path: str = "", topic_id: str = "one") -> Commit:
    return Commit(
        number=number,
        kind=CommitKind.LOAD,
        at_ms=7,
        writer="w",
        staging="s",
        added=(DataFile(path or f"part-{number}", 10),),
        offsets={"t": TopicOffsets(topic_id, {0: OffsetSet.of((start, end))})},
    )


class StateTests(TestCase):
    """Commits make a state, and contradictions are refused."""

    def test_round_trip(self) -> None:
        """What is read is what was written."""
        state = TableState().after(_load(1, 0, 5)).after(Commit(number=2, kind=CommitKind.CLAIM, at_ms=8, writer="v"))
        self.assertEqual(TableState.from_json("x", state.as_json()), state)
        self.assertEqual(Commit.from_json("x", _load(3, 5, 9).as_json()), _load(3, 5, 9))
        self.assertEqual(state.load.held("t", 0), OffsetSet.of((0, 5)))
        self.assertEqual(state.load.held("t", 1), OffsetSet())
        self.assertEqual(state.load.held("u", 0), OffsetSet())
        self.assertEqual(state.last_change, _load(1, 0, 5))
        gone = Commit(
            number=3,
            kind=CommitKind.LOSS,
            at_ms=9,
            writer="v",
            offsets={"t": TopicOffsets("one", {0: OffsetSet.of((5, 7))})},
        )
        state = state.after(gone)
        self.assertEqual(TableState.from_json("x", state.as_json()), state)
        self.assertEqual(state.load.held("t", 0), OffsetSet.of((0, 7)))
        self.assertEqual(state.load.lost["t"].partitions[0], OffsetSet.of((5, 7)))

    def test_contradictions(self) -> None:
        """No number is left out, no offset and no file comes twice, nothing goes that is not there, no id changes."""
        state = TableState().after(_load(1, 0, 5))
        for commit, words in (
            (_load(3, 5, 6), "commit 3 cannot follow commit 1"),
            (_load(2, 4, 6), r"t-0: offsets \(\(4, 5\),\) are in the table already"),
            (_load(2, 5, 6, "part-1"), "adds part-1, which the table has already"),
            (_load(2, 5, 6, topic_id="two"), "deleted and created again"),
            (Commit(number=2, kind=CommitKind.COMPACT, at_ms=0, writer="w", removed=("part-9",)), "removes part-9"),
        ):
            with self.subTest(words), self.assertRaisesRegex(LakeError, words):
                state.after(commit)

    def test_damaged_documents(self) -> None:
        """A damaged or newer document is named."""
        whole = _load(1, 0, 5).as_json()
        for text, words in (
            (whole[:-9], "x is not JSON"),
            (b"[]", "x is not a JSON object"),
            (whole.replace(b'"format":1', b'"format":2'), "x is of format 2, this program reads and writes 1"),
            (whole.replace(b'"load"', b'"lode"'), "x is not a commit of a table"),
            (whole.replace(b'"added"', b'"add"'), "x is not a commit of a table"),
            (whole.replace(b"[[0,5]]", b"[[5,0]]"), "x is not a commit of a table"),
        ):
            with self.subTest(words), self.assertRaisesRegex(LakeError, words):
                Commit.from_json("x", text)
        with self.assertRaisesRegex(LakeError, "x is not a snapshot of a table"):
            TableState.from_json("x", whole)
