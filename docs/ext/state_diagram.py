"""
The Sphinx directive ``state-diagram``: a diagram and a table of a state machine, drawn from the code.

``.. state-diagram:: MODULE`` shows ``MODULE.TRANSITIONS``, a mapping of states to events to next states; states and
events are enumerations whose values are their texts. States are listed in the order of their enumeration, one below the
other. A transition is an arc, at the right if it leads down, at the left if it leads up. The table has the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from html import escape
from importlib import import_module
from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

Transitions = Mapping[Enum, Mapping[Enum, Enum]]

WIDTH, HEIGHT, GAP, ARC, MARGIN = 190, 34, 36, 34, 20


def arcs(transitions: Transitions) -> list[tuple[Enum, Enum]]:
    """Return the pairs of states with an arrow, each once; a transition to the same state has none."""
    found = {
        (state, after): None for state, events in transitions.items() for after in events.values() if after is not state
    }
    return list(found)


def svg(transitions: Transitions) -> str:
    """Return the diagram."""
    states = list(transitions)
    place = {state: number for number, state in enumerate(states)}
    down = sorted(
        (arc for arc in arcs(transitions) if place[arc[0]] < place[arc[1]]), key=lambda arc: _span(place, arc)
    )
    up = sorted((arc for arc in arcs(transitions) if place[arc[0]] > place[arc[1]]), key=lambda arc: _span(place, arc))
    left = MARGIN + ARC * (max((_span(place, arc) for arc in up), default=0))
    width = left + WIDTH + MARGIN + ARC * (max((_span(place, arc) for arc in down), default=0))
    height = 2 * MARGIN + len(states) * HEIGHT + (len(states) - 1) * GAP
    label = escape("; ".join(f"{before.value} to {after.value}" for before, after in down + up))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        f' role="img" aria-label="{label}" font-family="sans-serif" font-size="14">',
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L10 5L0 10z"/></marker></defs>',
    ]
    for state, number in place.items():
        y, name = _top(number), escape(str(state.value))
        parts.append(
            f'<rect x="{left}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="8" fill="none" stroke="black"/>'
            f'<text x="{left + WIDTH / 2:g}" y="{y + HEIGHT / 2 + 5:g}" text-anchor="middle">{name}</text>'
        )
    for side, edge, some in ((1, left + WIDTH, down), (-1, left, up)):
        parts.extend(_arc(place, arc, edge, side) for arc in some)
    return "\n".join([*parts, "</svg>"])


def _span(place: Mapping[Enum, int], arc: tuple[Enum, Enum]) -> int:
    return abs(place[arc[1]] - place[arc[0]])


def _top(number: int) -> int:
    return MARGIN + number * (HEIGHT + GAP)


def _arc(place: Mapping[Enum, int], arc: tuple[Enum, Enum], edge: float, side: int) -> str:
    """Return an arrow beside the boxes, the longer the farther out, with its ends a little off their middles."""
    before, after = place[arc[0]], place[arc[1]]
    shift = HEIGHT / 5 * (1 if after > before else -1)
    start, end = _top(before) + HEIGHT / 2 + shift, _top(after) + HEIGHT / 2 - shift
    out = edge + side * ARC * _span(place, arc) * 4 / 3
    return (
        f'<path d="M{edge} {start:g}C{out:g} {start:g} {out:g} {end:g} {edge} {end:g}" fill="none" stroke="black"'
        ' marker-end="url(#head)"/>'
    )


def rows(transitions: Transitions) -> Iterator[Sequence[str]]:
    """Yield each transition as texts."""
    for state, events in transitions.items():
        for event, after in events.items():
            yield str(state.value), str(event.value), str(after.value)


def table(transitions: Transitions) -> Iterator[str]:
    """Yield the lines of a list table of the transitions."""
    yield from (".. list-table::", "   :header-rows: 1", "   :widths: auto", "")
    for row in (("From", "When", "To"), *rows(transitions)):
        for number, cell in enumerate(row):
            yield f"   {'  -' if number else '* -'} {cell}"
    yield ""


class StateDiagramDirective(SphinxDirective):
    """``.. state-diagram:: MODULE``"""

    required_arguments: ClassVar[int] = 1

    def run(self) -> list[nodes.Node]:
        module = import_module(self.arguments[0])
        self.env.note_dependency(str(module.__file__))
        container = nodes.Element()
        container.document = self.state.document
        lines = StringList(list(table(module.TRANSITIONS)), source=f"<transitions of {self.arguments[0]}>")
        nested_parse_with_titles(self.state, lines, container)
        return [nodes.raw("", svg(module.TRANSITIONS), format="html"), *container.children]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("state-diagram", StateDiagramDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
