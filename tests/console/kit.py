"""A console over the fakes of the admin listener, and what a browser sees of its pages."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from attrs import define, field

from logbus.console.console_site import ConsoleSite
from tests.admin.harness import Answered, World

VOID = {"meta", "link", "input", "br", "hr", "img"}


@define(eq=False)
class Seen(HTMLParser):
    """
    A parsed page.

    :ivar elements: tags with their attributes, in order.
    :ivar faults: what is not well-formed.
    """

    elements: list[tuple[str, dict[str, str | None]]] = field(factory=list)
    words: list[str] = field(factory=list)
    faults: list[str] = field(factory=list)
    _open: list[str] = field(factory=list)

    def __attrs_pre_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(set(names)) != len(names):
            self.faults.append(f"<{tag}> has an attribute twice: {names}")
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self._open or self._open.pop() != tag):
            self.faults.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        """All text, with single spaces."""
        return " ".join(" ".join(self.words).split())

    def having(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        """Return the attributes of elements with these."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [found for kind, found in self.elements if kind == tag and wanted.items() <= found.items()]

    @property
    def links(self) -> list[str]:
        """Where links lead."""
        return [found["href"] or "" for found in self.having("a") if "href" in found]


def seen(answered: Answered) -> Seen:
    """Parse a page, and check what holds for all."""
    assert answered.headers["Content-Type"] == "text/html; charset=utf-8", answered.body
    page = Seen()
    page.feed(answered.body.decode("utf-8"))
    page.close()
    assert page.faults == [], page.faults
    ids = [found["id"] for _, found in page.elements if "id" in found]
    assert len(set(ids)) == len(ids), ids
    for tag, attributes in page.elements:
        assert "style" not in attributes and not any(name.startswith("on") for name in attributes), (tag, attributes)
        for name in ("href", "src", "action"):
            assert (attributes.get(name) or "/").startswith(("/", "#")), attributes
    labelled = {found.get("for") for found in page.having("label")}
    for tag in ("input", "textarea"):
        for found in page.having(tag):
            assert found.get("type") in ("hidden", "checkbox") or found.get("id") in labelled, found
    return page


SAME_ORIGIN = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://localhost:8080"}


def console(**more: Any) -> World:
    """A listener with a console."""
    return World(make_pages=ConsoleSite.of, **more)


def post(world: World, target: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Answered:
    """Send a form as a browser does."""
    return world.ask("POST", target, urlencode(fields).encode(), {**SAME_ORIGIN, **(headers or {})})
