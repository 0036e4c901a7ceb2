"""
The places in a response where an error code can stand, and the elements of the request that each belongs to, by the
declarations of messages. Pure.

A response has a code of its own, codes of its elements, or both. An error goes as deep as the request has elements to
answer: to the partitions of a Produce, to the topics of a CreateTopics, to a Heartbeat itself. Errors about the request
as a whole, such as NOT_COORDINATOR, go to the outermost place that a version has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from attrs import frozen

from logbus.errors import ErrorCode
from logbus.testing.requests.partitions import FORGOTTEN, array_element, is_topic, partition_number
from logbus.wire.declaration import message_spec
from logbus.wire.error_codes import NAMES
from logbus.wire.layout import Array, FieldLayout, StructLayout, message_layout
from logbus.wire.messages import api
from logbus.wire.wire_types import STRING

WHOLE_REQUEST = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
"""Errors that say nothing about an element of a request."""


@frozen
class Level:
    """
    An array in a response whose elements belong to elements of the request.

    :ivar array: its name.
    :ivar layout: of its elements.
    :ivar sources: the ways to these elements in the request, or in the element of the level above: names of arrays.
    """

    array: str
    layout: StructLayout
    sources: tuple[tuple[str, ...], ...]


@frozen
class Place:
    """
    A place for an error code.

    :ivar levels: the arrays around it, outermost first; none: the response itself.
    :ivar code: the name of the field.
    """

    levels: tuple[Level, ...]
    code: str

    def __str__(self) -> str:
        return ".".join((*(f"{level.array}[]" for level in self.levels), self.code))


@cache
def error_places(api_key: int, version: int) -> Sequence[Place]:
    """The places of a response for which its request has elements, outermost first."""
    known = api(api_key)
    response = message_layout(message_spec(known.response), version)
    request = message_layout(message_spec(known.request), version)
    return sorted(_places(response, request, ()), key=lambda place: len(place.levels))


def place_of(api_key: int, version: int, error: ErrorCode) -> Place | None:
    """Where an error of a request goes in its response; None: the response has no place for any."""
    places = error_places(api_key, version)
    if not places:
        return None
    return places[0] if error in WHOLE_REQUEST else places[-1]


def _places(layout: StructLayout, request: StructLayout | None, levels: tuple[Level, ...]) -> Iterator[Place]:
    for field in layout.fields:
        if field.name in NAMES:
            yield Place(levels, field.name)
        elif (element := array_element(field)) is not None and request is not None:
            inner = layout.nested(element)
            sources = _sources(inner, request)
            if sources:
                level = Level(field.name, inner, tuple(way for way, _ in sources))
                yield from _places(inner, sources[0][1], (*levels, level))


_Source = tuple[tuple[str, ...], StructLayout | None]


def _sources(answer: StructLayout, request: StructLayout) -> list[_Source]:
    """The arrays of a request whose elements those of an answer belong to; nearer ones hide those within others."""
    found: list[_Source] = []
    further: list[_Source] = []
    for field in (*request.fields, *request.tagged):
        if not isinstance(field.shape, Array) or field.name.startswith(FORGOTTEN):
            continue
        element = array_element(field)
        inner = None if element is None else request.nested(element)
        if _belongs(answer, field, inner):
            found.append(((field.name,), inner))
        elif inner is not None:
            further += [((field.name, *way), layout) for way, layout in _sources(answer, inner)]
    return found or further


def _belongs(answer: StructLayout, field: FieldLayout, element: StructLayout | None) -> bool:
    """Whether the elements of an answer can be those of an array of the request; ``element`` None: it has numbers."""
    if is_topic_result(answer):
        return "topic" in field.name and (element is None or is_topic(element))
    if partition_number(answer) is not None:
        return "partition" in field.name and (element is None or partition_number(element) is not None)
    if "topic" in field.name or "partition" in field.name:
        return False
    if element is None:
        return any(each.shape == field.shape.element for each in keys_of(answer))  # type: ignore[union-attr]
    names = {each.name for each in element.fields}
    missing = [each for each in keys_of(answer) if each.name not in names]
    # One key may be called otherwise, as the user of a credential.
    return not missing or (
        len(missing) == 1 and missing[0].shape == STRING and any(each.shape == STRING for each in element.fields)
    )


def is_topic_result(layout: StructLayout) -> bool:
    """Whether a struct of a response is the result of a topic."""
    names = {field.name for field in layout.fields}
    return is_topic(layout) and ("Topic" in layout.cls.__name__ or "name" not in names)


def keys_of(layout: StructLayout) -> list[FieldLayout]:
    """The fields that tell an element of an answer from others: texts and numbers that it must have."""
    return [field for field in layout.fields if field.spec.required and not isinstance(field.shape, (Array, type))]
