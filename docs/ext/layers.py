"""
The layers of the code, drawn from the contract that import-linter checks.

``.. layers::`` draws the first contract of type ``layers`` in ``pyproject.toml``, upper layers above, and lists the
first sentence of each package's docstring below it.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

Layers = Sequence[Sequence[str]]

CHECKOUT = Path(__file__).parents[2]
WIDTH, HEIGHT, GAP, MARGIN = 760, 34, 10, 10


def contract(checkout: Path = CHECKOUT) -> Layers:
    """The modules of each layer, upper layers first."""
    tool = tomllib.loads((checkout / "pyproject.toml").read_text())["tool"]
    found = next(each for each in tool["importlinter"]["contracts"] if each["type"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in found["layers"]]


def sentence(name: str, checkout: Path = CHECKOUT) -> str:
    """The first sentence of a module's docstring."""
    path = checkout / "logbus" / name
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    text = ast.get_docstring(ast.parse(source)) or ""
    return " ".join(text.split("\n\n")[0].split())


def svg(layers: Layers) -> str:
    """The drawing: a row for each layer; packages side by side do not import one another."""
    height = 2 * MARGIN + len(layers) * (HEIGHT + GAP) - GAP
    label = escape("; ".join(", ".join(layer) for layer in layers))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        f' role="img" aria-label="Layers, upper import lower: {label}" font-family="sans-serif" font-size="13">'
    ]
    for row, layer in enumerate(layers):
        y = MARGIN + row * (HEIGHT + GAP)
        width = (WIDTH - 2 * MARGIN - GAP * (len(layer) - 1)) / len(layer)
        for column, name in enumerate(layer):
            x = MARGIN + column * (width + GAP)
            parts.append(
                f'<rect x="{x:g}" y="{y}" width="{width:g}" height="{HEIGHT}" rx="4" fill="none" stroke="black"/>'
                f'<text x="{x + width / 2:g}" y="{y + HEIGHT / 2 + 5:g}" text-anchor="middle">{escape(name)}</text>'
            )
    return "\n".join([*parts, "</svg>"])


def table(layers: Layers) -> Iterator[str]:
    """What is in each package, as a list table."""
    yield from (".. list-table::", "   :header-rows: 1", "   :widths: auto", "", "   * - Package", "     - What it is")
    for name in (name for layer in layers for name in layer):
        yield f"   * - ``logbus.{name}``"
        yield f"     - {sentence(name)}"
    yield ""


class LayersDirective(SphinxDirective):
    """``.. layers::``"""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()
        layers = contract()
        container = nodes.Element()
        container.document = self.state.document
        nested_parse_with_titles(self.state, StringList(list(table(layers)), source="<layers>"), container)
        return [nodes.raw("", svg(layers), format="html"), *container.children]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("layers", LayersDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
