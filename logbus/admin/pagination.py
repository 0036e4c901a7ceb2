"""
Lists in pages, so that no answer blocks the reactor for long: their parameters, their schemas, and pages of names.

A list is in the order of a key. A page has at most ``limit`` items with keys above ``after``; its ``next`` is the
``after`` that asks for the page that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any

from logbus.admin.json_schema import JsonSchema, array, integer, nullable, object_schema, string
from logbus.admin.routing import ViewRequest

MAX_PAGE = 500

LIMIT = integer("Maximum size of a page.", minimum=1, maximum=MAX_PAGE, default=MAX_PAGE)


def page(what: str, items: JsonSchema, after: JsonSchema, **more: Any) -> JsonSchema:
    """Return the schema of a page of a list, with the members ``more``."""
    return object_schema(
        f"A page of {what}.",
        items=array("The page.", items, maxItems=MAX_PAGE),
        next=nullable({**after, "description": "The value of 'after' for the next page; null: this is the last page."}),
        **more,
    )


UNANSWERED = array(
    "Brokers that did not answer: what they have is missing.",
    object_schema("A broker.", broker=integer("Its number."), reason=string("Why it is missing, a sentence.")),
)
"""A member of pages of lists that each broker has a part of."""


def paged(after: JsonSchema, **more: JsonSchema) -> Mapping[str, JsonSchema]:
    """Return the parameters of a paged list, and ``more``."""
    return MappingProxyType({**more, "after": {**after, "default": None}, "limit": LIMIT})


CONTAINS: Mapping[str, JsonSchema] = MappingProxyType(
    {"contains": {**string("Text that names must contain, in any case.", maxLength=1000), "default": ""}}
)
"""The parameter of lists that are filtered by names."""


def containing(names: Iterable[str], text: str) -> Iterable[str]:
    """Return the names that contain a text, in any case."""
    needle = text.lower()
    return (name for name in names if needle in name.lower()) if needle else names


def page_of(
    names: Iterable[str], call: ViewRequest, is_visible: Callable[[str], bool] | None
) -> tuple[list[str], str | None]:
    """
    Return the names on the page that is asked for, and the value of ``next``.

    :param is_visible: whether a name may be told; None: all may.
    """
    after, limit = call.query["after"], call.query["limit"]
    rest = sorted(names if after is None else (name for name in names if name > after))
    if is_visible is not None:
        rest = list(islice(filter(is_visible, rest), limit + 1))
    shown = rest[:limit]
    return shown, shown[-1] if len(rest) > limit else None
