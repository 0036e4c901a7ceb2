"""The pictures of the dashboard in the documentation show what there is."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tests.deploy.dashboard import PICTURES, RECORD, Panel, outline, panels
from tests.deploy.panel_drawing import Series, draw

FILES = sorted(PICTURES.glob("*.svg"))


def test_pictures_are_of_this_dashboard() -> None:
    """
    Panels and what they ask for are those that the dashboard had when the pictures were made. If not, make
    the pictures again, and look at them: ``python -m tests.deploy.pictures docs/howto/dashboard``.
    """
    assert outline() == (PICTURES / RECORD).read_text()


def test_each_panel_is_drawn() -> None:
    """All of them are in the pictures, in their order; the page shows all pictures."""
    titles = [
        text.text
        for file in FILES
        for text in ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}text")
        if text.get("class") == "title"
    ]
    assert titles == [panel.title for panel in panels()]
    page = (PICTURES.parent / "monitoring.rst").read_text()
    assert re.findall(r"image:: dashboard/(\S+)", page) == [file.name for file in FILES]


def test_pictures_are_small() -> None:
    """They are loaded with the page."""
    assert sum(file.stat().st_size for file in FILES) < 150_000


def test_drawing() -> None:
    """A line has a gap where it has no values; a panel without any says so; names that find no room are counted."""
    lines = [Series(f"<{number}>", [(0.0, 1.0), (0.4, 1.0), None, (0.6, 2.0), (1.0, 0.0)]) for number in range(40)]
    full = Panel("Full", "", "s", (0, 8, 12, 8), ())
    empty = Panel("Empty", "", "short", (12, 8, 12, 8), ())
    drawing = ElementTree.fromstring(draw([(full, lines), (empty, [])], ["then", "now"]))
    assert len(drawing.findall(".//{*}polyline")) == 2 * len(lines)
    words = [text.text or "" for text in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert words[:6] == ["Full", "0 s", "1 s", "2 s", "then", "now"]
    named = sum(word.startswith("<") for word in words)
    assert words[-3:] == [f"and {len(lines) - named} more", "Empty", "No data"]
