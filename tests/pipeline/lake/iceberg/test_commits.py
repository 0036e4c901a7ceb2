"""Tests whose a table's snapshots are, and its state after changes by others."""

from __future__ import annotations

import pytest
from attrs import evolve

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.iceberg.commits import COMMIT, MAX_SUMMARY, OFFSETS, WRITER, Ancestor, TableState, resolve
from logbus.pipeline.lake.load_state import LoadChange, LoadState, TopicOffsets
from logbus.pipeline.lake.offset_set import OffsetSet


def _after(state: TableState, end: int) -> TableState:
    """The state after a batch that ends at an offset; snapshots are numbered as commits are."""
    start = state.load.held("views", 0).end
    offsets = {"views": TopicOffsets("id", {0: OffsetSet.of((start, end))})}
    made = state.after(LoadChange(offsets=offsets, records=end - start), "me", end)
    return evolve(made, snapshot=made.number, sequence=made.number)


def _ours(state: TableState) -> Ancestor:
    assert state.snapshot is not None
    parent = state.snapshot - 1 or None
    return Ancestor(state.snapshot, parent, state.sequence, "append", state.summary())


FIRST = _after(TableState(), 10)
SECOND = _after(FIRST, 20)
THIRD = _after(SECOND, 30)
OURS = [_ours(each) for each in (FIRST, SECOND, THIRD)]


def _foreign(snapshot: int, parent: int, sequence: int) -> Ancestor:
    return Ancestor(snapshot, parent, sequence, "replace")


def test_json() -> None:
    state = evolve(THIRD, quarantine=7)
    assert TableState.from_json("lake.views", state.as_json()) == state
    with pytest.raises(LakeError, match=r"lake\.views: its property logbus\.state is not the state of a table"):
        TableState.from_json("lake.views", '{"format":1}')
    with pytest.raises(LakeError, match="is of format 2, this program reads and writes 1"):
        TableState.from_json("lake.views", '{"format":2}')


def test_summary() -> None:
    """It has the offsets, unless they would make the metadata long."""
    assert set(THIRD.summary()) == {COMMIT, WRITER, OFFSETS}
    gaps = OffsetSet.of(*((start, start + 1) for start in range(0, 4000, 2)))
    wide = evolve(THIRD, load=LoadState(offsets={"views": TopicOffsets("id", {0: gaps})}))
    assert len(wide.as_json()) > MAX_SUMMARY
    assert set(wide.summary()) == {COMMIT, WRITER}


def test_unchanged() -> None:
    assert resolve("t", THIRD, 3, OURS).state == THIRD
    assert resolve("t", THIRD, 3, OURS).notes == ()
    assert resolve("t", None, None, []).state == TableState()


def test_no_table_of_loads() -> None:
    with pytest.raises(LakeError, match=r"t has snapshots, but no property logbus\.state: its rows are not of a load"):
        resolve("t", None, 1, [_foreign(1, 0, 1)])


@pytest.mark.parametrize("known", [OURS, OURS[2:], []])
def test_changes_of_others(known: list[Ancestor]) -> None:
    """They are told; the state is the same, also where our own snapshots have expired."""
    found = resolve("t", THIRD, 5, [*known, _foreign(4, 3, 4), _foreign(5, 4, 5)])
    assert found.state == THIRD
    assert found.notes == ("another program has made 2 snapshots of the table since the last load (replace)",)


@pytest.mark.parametrize("parent", [5, None])
def test_expired_in_between(parent: int | None) -> None:
    """Where it is not known what the others' snapshots are based on, the rows are counted."""
    known = [Ancestor(6, parent, 6)]
    assert resolve("t", THIRD, 6, known, rows=30).state == THIRD
    for rows, said in ((29, "29"), (None, r"\?")):
        with pytest.raises(LakeError, match=f"has {said} rows, where it had 30: rows were deleted, or it was"):
            resolve("t", THIRD, 6, known, rows=rows)


@pytest.mark.parametrize("newer", [[], [_foreign(9, 1, 4)]])
def test_rolled_back(newer: list[Ancestor]) -> None:
    """The state is that of the snapshot, so that the rest is loaded again; also if others have gone on from there."""
    found = resolve("t", THIRD, 9 if newer else 1, [*OURS, *newer])
    assert found.state == evolve(THIRD, load=FIRST.load, records=10)
    assert "rolled back from commit 3 to commit 1; what was loaded after that is loaded again" in found.notes[0]


def test_rolled_back_to_before_loads() -> None:
    found = resolve("t", THIRD, None, OURS)
    assert found.state.load == LoadState()
    assert found.state.number == 3
    assert found.notes == ("the table was rolled back from commit 3 to none; all is loaded again",)


def test_rolled_back_to_unknown() -> None:
    """It is refused, and the snapshot is named that would be right."""
    without = evolve(OURS[0], properties={WRITER: "me", COMMIT: "1"})
    for known in ([without], [_foreign(1, 8, 1)], [Ancestor(1, None, 1, "append")]):
        with pytest.raises(LakeError, match="offsets are not known; make snapshot 3 the current one again"):
            resolve("t", THIRD, 1, known)
