"""Tests of the state diagrams in the documentation: they have every state and every transition."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from logbus.coordination.classic.classic_group_state import TRANSITIONS, ClassicGroupEvent, ClassicGroupState

EXTENSION = Path(__file__).parent.parent.parent / "docs" / "ext" / "state_diagram.py"


@pytest.fixture(scope="module")
def diagrams() -> ModuleType:
    """The Sphinx extension."""
    spec = importlib.util.spec_from_file_location("state_diagram", EXTENSION)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_diagram_has_every_state_and_arrow(diagrams: ModuleType) -> None:
    """Each state is drawn once, with an arrow for each pair of states with a transition."""
    drawing = ElementTree.fromstring(diagrams.svg(TRANSITIONS))
    texts = [element.text for element in drawing.iter() if element.tag.endswith("text")]
    assert texts == [state.value for state in ClassicGroupState]
    arrows = [element for element in drawing.iter() if element.get("marker-end")]
    assert len(arrows) == len(diagrams.arcs(TRANSITIONS)) == 11


def test_table_has_every_transition(diagrams: ModuleType) -> None:
    """Each transition is a row with the text of its event."""
    lines = "\n".join(diagrams.table(TRANSITIONS))
    assert lines.count("   * - ") == 1 + sum(len(events) for events in TRANSITIONS.values())
    assert all(event.value in lines for event in ClassicGroupEvent)


def test_arrows_are_inside_the_diagram(diagrams: ModuleType) -> None:
    """The farthest point of the longest arc is inside the edge."""
    drawing = ElementTree.fromstring(diagrams.svg(TRANSITIONS))
    width = float(drawing.get("width") or 0)
    for arrow in (element for element in drawing.iter() if element.get("marker-end")):
        numbers = [float(part) for part in arrow.get("d", "").replace("M", "").replace("C", " ").split()]
        start, control = numbers[0], numbers[2]
        # Of a cubic with both ends at one edge and both controls at another, the middle is 3/4 of the way.
        assert 0 <= start + (control - start) * 3 / 4 <= width
