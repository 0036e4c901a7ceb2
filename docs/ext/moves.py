"""
State diagrams made of the tables that the code runs on: what is drawn is what can happen.

``.. moves:: MODULE`` draws ``MODULE.MOVES``, a mapping of states to events to states, whose states and events are
enumerations with words for values. States stand in the order of their enumeration, one below the other; a move is an
arc at the right if it leads down, at the left if it leads up. A table says the same in words.
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

Moves = Mapping[Enum, Mapping[Enum, Enum]]

WIDTH, HEIGHT, GAP, ARC, MARGIN = 190, 34, 36, 34, 20


def arcs(moves: Moves) -> list[tuple[Enum, Enum]]:
    """Which states are joined by an arrow, each pair once; a state that stays itself has none."""
    found = {(state, after): None for state, events in moves.items() for after in events.values() if after is not state}
    return list(found)


def svg(moves: Moves) -> str:
    """The diagram."""
    states = list(moves)
    place = {state: number for number, state in enumerate(states)}
    down = sorted((arc for arc in arcs(moves) if place[arc[0]] < place[arc[1]]), key=lambda arc: _span(place, arc))
    up = sorted((arc for arc in arcs(moves) if place[arc[0]] > place[arc[1]]), key=lambda arc: _span(place, arc))
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
    """Beside the boxes, the farther out the longer; it leaves below the middle and arrives above it, or the reverse."""
    before, after = place[arc[0]], place[arc[1]]
    shift = HEIGHT / 5 * (1 if after > before else -1)
    start, end = _top(before) + HEIGHT / 2 + shift, _top(after) + HEIGHT / 2 - shift
    out = edge + side * ARC * _span(place, arc) * 4 / 3
    return (
        f'<path d="M{edge} {start:g}C{out:g} {start:g} {out:g} {end:g} {edge} {end:g}" fill="none" stroke="black"'
        ' marker-end="url(#head)"/>'
    )


def rows(moves: Moves) -> Iterator[Sequence[str]]:
    """Each move, in words."""
    for state, events in moves.items():
        for event, after in events.items():
            yield str(state.value), str(event.value), str(after.value)


def table(moves: Moves) -> Iterator[str]:
    """The moves as a list table."""
    yield from (".. list-table::", "   :header-rows: 1", "   :widths: auto", "")
    for row in (("From", "When", "To"), *rows(moves)):
        for number, cell in enumerate(row):
            yield f"   {'  -' if number else '* -'} {cell}"
    yield ""


class MovesDirective(SphinxDirective):
    """``.. moves:: MODULE``"""

    required_arguments: ClassVar[int] = 1

    def run(self) -> list[nodes.Node]:
        module = import_module(self.arguments[0])
        self.env.note_dependency(str(module.__file__))
        container = nodes.Element()
        container.document = self.state.document
        lines = StringList(list(table(module.MOVES)), source=f"<moves of {self.arguments[0]}>")
        nested_parse_with_titles(self.state, lines, container)
        return [nodes.raw("", svg(module.MOVES), format="html"), *container.children]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("moves", MovesDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
