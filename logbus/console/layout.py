"""
The frame of all pages: head, navigation and foot.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import frozen
from twisted.web.template import Tag, tags

import logbus
from logbus.console.elements import link, name
from logbus.console.figures import shortened
from logbus.console.page import Page
from logbus.net.request_context import ANONYMOUS

SECTIONS: tuple[tuple[str, str, str], ...] = (
    ("/", "Overview", "o"),
    ("/console/topics", "Topics", "t"),
    ("/console/groups", "Groups", "g"),
    ("/console/transactions", "Transactions", "x"),
    ("/console/mirrors", "Mirrors", "m"),
    ("/console/brokers", "Brokers", "b"),
    ("/console/schemas", "Schemas", "s"),
    ("/console/access", "Access", "a"),
    ("/console/links", "Links", "l"),
)
"""Paths, names and keys of the navigation."""
MOST_OF_TITLE = 300

PAGE_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        # With no-referrer browsers send "Origin: null" with forms, which says nothing.
        "Referrer-Policy": "same-origin",
    }
)


@frozen
class Layout:
    """
    Puts pages into the frame.

    :ivar static: returns the address of a file that browsers keep.
    """

    broker_id: int
    static: Any

    def document(self, page: Page, principal: str) -> Tag:
        """Return the whole document."""
        title = shortened(page.title, MOST_OF_TITLE)
        return tags.html(
            tags.head(
                tags.meta(charset="utf-8"),
                tags.meta(name="viewport", content="width=device-width, initial-scale=1"),
                tags.meta(name="color-scheme", content="light dark"),
                tags.title(f"{title} · logbus broker {self.broker_id}"),
                tags.link(rel="icon", href=self.static("icon.svg"), type="image/svg+xml"),
                tags.link(rel="stylesheet", href=self.static("console.css")),
                [tags.script(src=self.static(name)) for name in ("console.js", *page.scripts)],
            ),
            tags.body(
                tags.a("Skip to content", href="#content", class_="skip"),
                self._header(page, principal),
                Tag("main")(
                    self._trail(page),
                    tags.div(tags.h1(title), tags.div(*page.actions, class_="actions"), class_="title"),
                    *page.content,
                    id="content",
                    tabindex="-1",
                ),
                self._foot(),
            ),
            lang="en",
        )

    def _header(self, page: Page, principal: str) -> Tag:
        return tags.header(
            link("/", tags.span("logbus", class_="mark"), tags.span(f"broker {self.broker_id}"), class_="brand"),
            tags.nav(
                tags.ul([tags.li(_entry(path, text, key, path == page.section)) for path, text, key in SECTIONS]),
                **{"aria-label": "Sections"},
            ),
            tags.div(
                tags.span(id="connection", role="status", **{"aria-live": "polite"}),
                tags.span(name(principal.removeprefix("User:"), 40), class_="who", title="Signed in as")
                if principal != ANONYMOUS
                else link("/console/sign-in", "Sign in"),
                tags.button("Theme", type="button", id="theme", hidden="hidden"),
                class_="session",
            ),
        )

    def _trail(self, page: Page) -> Any:
        if not page.trail:
            return ""
        return tags.nav(
            [[link(path, name(text, 60)), tags.span("/", **{"aria-hidden": "true"})] for text, path in page.trail],
            class_="trail",
            **{"aria-label": "Above this page"},
        )

    def _foot(self) -> Tag:
        return tags.footer(
            tags.span(f"logbus {logbus.__version__}"),
            link("/api/v1/openapi.json", "API"),
            link("/metrics", "Metrics"),
            link("/readyz", "Readiness"),
            link("/console/links#keys", "Keyboard shortcuts"),
        )


def _entry(path: str, text: str, key: str, is_current: bool) -> Tag:
    made = tags.a(text, href=path, **{"data-key": key})
    return made(**{"aria-current": "page"}) if is_current else made
