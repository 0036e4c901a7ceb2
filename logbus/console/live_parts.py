"""
Keeps an open page up to date: the same address, asked for as ``text/event-stream``, sends those parts of the page that
have changed, as server-sent events (HTML Living Standard, 9.2).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterator
from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.web.template import Tag, flattenString

from logbus.admin.event_stream import Piece, event, wait_for
from logbus.console.page import Page

LEAST_SECONDS, MOST_SECONDS = 2.0, 30.0
"""Bounds of the time between two looks at a page."""

SHARE = 50
"""A page that takes a second to make is made again after as many."""

ALIVE_SECONDS = 10.0
"""Silence after which the browser is told that somebody is still here."""


@frozen
class LiveParts:
    """
    The changes of one page.

    :ivar make: makes the page as it is now; errors are pages, too.
    """

    make: Callable[[], Coroutine[Any, Any, Any]]
    clock: IReactorTime

    def events(self) -> Generator[Piece, None, None]:
        """
        Return the events: ``part`` with the ``id`` of an element and its ``html``, at first for all; ``alive``; and
        ``over`` with the ``reason`` when the page is not to be had any more, because what it shows was deleted or the
        user lost a right, or when nothing of it changes. While the page cannot be made for the moment, there is none.
        """
        shown: dict[str, str] = {}
        spoke = self.clock.seconds()
        while True:
            began = self.clock.seconds()
            page = yield from wait_for(Deferred.fromCoroutine(self.make()))
            if not isinstance(page, Page):
                yield event("over", {"reason": "There is no page here that changes."})
                return
            if HTTPStatus.BAD_REQUEST <= page.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                yield event("over", {"reason": page.status.phrase})
                return
            parts = list(parts_of(page.content))
            if not parts and page.status is HTTPStatus.OK and not shown:
                yield event("over", {"reason": "Nothing of this page changes."})
                return
            for part in parts:
                name = str(part.attributes["id"])
                html = yield from wait_for(flattenString(None, part))
                text = html.decode("utf-8")
                if shown.get(name) != text:
                    shown[name] = text
                    spoke = self.clock.seconds()
                    yield event("part", {"id": name, "html": text})
            now = self.clock.seconds()
            if now - spoke >= ALIVE_SECONDS and page.status is HTTPStatus.OK:
                spoke = now
                yield event("alive", {})
            pause = min(max(SHARE * (now - began), LEAST_SECONDS), MOST_SECONDS)
            yield from wait_for(deferLater(self.clock, pause))


def parts_of(content: Any) -> Iterator[Tag]:
    """Return the elements of a page that are kept up to date: those with an id and ``data-live``."""
    if isinstance(content, Tag):
        if "data-live" in content.attributes:
            yield content
        else:
            yield from parts_of(content.children)
    elif isinstance(content, list | tuple):
        for each in content:
            yield from parts_of(each)
