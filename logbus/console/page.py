"""
The visit that a page is made for, and the page that is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from logbus.admin.event_stream import Piece
from logbus.console.api_client import ApiClient

Content = Sequence[Any]
"""What :func:`twisted.web.template.flatten` takes: texts, tags, lists and Deferreds of these."""


@frozen
class Visit:
    """
    A user's request for a page.

    :ivar names: the variable parts of the path, by name.
    :ivar query: the fields of the query.
    :ivar form: the fields of the posted form; empty unless one was posted.
    :ivar pause: fires in the next reactor turn; put into long tables, so that they are made in slices.
    """

    api: ApiClient
    path: str
    names: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str]
    pause: Callable[[], Any]

    @property
    def principal(self) -> str:
        """Who asks, as ``User:name``."""
        return self.api.access.principal


@frozen
class Page:
    """
    A page, without its frame.

    :ivar section: the path of the entry in the navigation.
    :ivar trail: links above the title: texts and paths.
    :ivar actions: links or forms beside the title.
    :ivar scripts: names of files of scripts that this page needs besides that of all pages.
    """

    title: str
    section: str
    content: Content
    trail: Sequence[tuple[str, str]] = ()
    actions: Content = ()
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(factory=lambda: MappingProxyType({}))
    scripts: Sequence[str] = ()


@frozen
class SeeOther:
    """The page that a browser should get after a change."""

    location: str


@frozen
class Download:
    """
    A file that the browser should save.

    :ivar body: its parts, as those of :class:`.ViewResponse`.
    """

    name: str
    content_type: str
    body: Callable[[], Iterator[Piece]]


PageResult = Page | SeeOther | Download
