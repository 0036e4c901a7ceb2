"""The diagram of a group's states, held against the table it is made of."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from logbus.coordination.classic.classic_group_state import MOVES, ClassicGroupEvent, ClassicGroupState

EXTENSION = Path(__file__).parent.parent.parent / "docs" / "ext" / "moves.py"


@pytest.fixture(scope="module")
def moves() -> ModuleType:
    """The Sphinx extension."""
    spec = importlib.util.spec_from_file_location("moves", EXTENSION)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_drawing_has_every_state_and_every_arrow(moves: ModuleType) -> None:
    """As many arrows as there are ways from one state to another; each state once."""
    drawing = ElementTree.fromstring(moves.svg(MOVES))
    texts = [element.text for element in drawing.iter() if element.tag.endswith("text")]
    assert texts == [state.value for state in ClassicGroupState]
    arrows = [element for element in drawing.iter() if element.get("marker-end")]
    assert len(arrows) == len(moves.arcs(MOVES)) == 11


def test_the_table_has_every_move(moves: ModuleType) -> None:
    """Each with the words of its event."""
    lines = "\n".join(moves.table(MOVES))
    assert lines.count("   * - ") == 1 + sum(len(events) for events in MOVES.values())
    assert all(event.value in lines for event in ClassicGroupEvent)


def test_an_arrow_stays_inside_the_drawing(moves: ModuleType) -> None:
    """The farthest point of the longest arc is at most at the edge."""
    drawing = ElementTree.fromstring(moves.svg(MOVES))
    width = float(drawing.get("width") or 0)
    for arrow in (element for element in drawing.iter() if element.get("marker-end")):
        numbers = [float(part) for part in arrow.get("d", "").replace("M", "").replace("C", " ").split()]
        start, control = numbers[0], numbers[2]
        # Of a cubic with both ends at one edge and both controls at another, the middle is 3/4 of the way.
        assert 0 <= start + (control - start) * 3 / 4 <= width
