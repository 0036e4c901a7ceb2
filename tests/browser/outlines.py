"""What the pages consist of that are in the pictures of the documentation: it tells when a picture is out of date."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from types import MappingProxyType
from urllib.request import urlopen

from attrs import define, field

PICTURES: Mapping[str, str] = MappingProxyType(
    {
        "overview": "/",
        "topic": "/console/topics/orders",
        "records": "/console/topics/orders/records",
        "group": "/console/groups/billing",
        "schema": "/console/schemas/subject?subject=orders-value&against=1",
    }
)
"""Names of pictures, and the paths of their pages."""
RECORD = "outlines.txt"
"""The file beside the pictures with the outlines of their pages."""
SHOWN = ("h1", "h2")


@define(eq=False)
class _Outline(HTMLParser):
    """Takes the entries of the navigation and the headings, each once, in order."""

    found: dict[str, None] = field(factory=dict)
    _open: list[str] = field(factory=list)
    _words: str = ""

    def __attrs_pre_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in SHOWN or (tag == "a" and "data-key" in dict(attrs)):
            self._open.append(tag)
            self._words = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self._words += data

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()
            if words := " ".join(self._words.split()):
                self.found[f"  {tag}: {words}"] = None


def outlines(admin_url: str) -> str:
    """Return the outlines of the pages, at a broker that has the sample data and has just been started."""
    lines = []
    for name, path in PICTURES.items():
        with urlopen(admin_url + path, timeout=120) as answer:
            parser = _Outline()
            parser.feed(answer.read().decode())
        lines += [f"{name} ({path})", *parser.found]
    return "\n".join(lines) + "\n"
