"""
Finds the topics and partitions that a request names, by the declarations of messages. Pure.

No API is listed here: a topic is a struct in an array with ``topic`` in its name, which has a name or an id; partitions
are an array in it. Requests about settings name topics as resources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from logbus.wire.declaration import is_struct, message_spec
from logbus.wire.layout import Array, FieldLayout, StructLayout, message_layout
from logbus.wire.messages import api
from logbus.wire.wire_types import STRING, UUID, ZERO_UUID

TOPIC_NAMES = ("name", "topic", "topic_name")
TOPIC_ID = "topic_id"
PARTITIONS = ("partition", "partition_index", "index", "partition_id")
"""The names that Kafka's messages have for the number of a partition."""

_TOPIC_RESOURCE = 2
FORGOTTEN = "forgotten"
"""The beginning of the names of arrays with what a fetch session is to forget."""


class Named(NamedTuple):
    """A topic in a request, by name, or by id with an empty name; ``partition`` None: the request names none."""

    topic: str
    topic_id: bytes
    partition: int | None


Finder = Callable[[Any], Iterator[Named]]


@cache
def names_topics(api_key: int) -> bool:
    """Whether requests of an API name topics, in any version."""
    versions = api(api_key).versions
    return any(_finders(api_key, version) for version in (versions.min, versions.max))


@cache
def names_partitions(api_key: int) -> bool:
    """Whether requests of an API name partitions, in any version."""
    known = api(api_key)
    layouts = (message_layout(message_spec(known.request), each) for each in (known.versions.min, known.versions.max))
    return any(_has_partitions(layout) for layout in layouts)


def named_in(api_key: int, version: int, message: Any) -> Iterator[Named]:
    """The topics and partitions that a request names, in its order."""
    for find in _finders(api_key, version):
        yield from find(message)


def array_element(field: FieldLayout) -> type | None:
    """The struct that a field is an array of."""
    element = field.shape.element if isinstance(field.shape, Array) else None
    return element if isinstance(element, type) and is_struct(element) else None


@cache
def _finders(api_key: int, version: int) -> tuple[Finder, ...]:
    return tuple(_in_struct(message_layout(message_spec(api(api_key).request), version)))


def _in_struct(layout: StructLayout) -> Iterator[Finder]:
    """What finds topics in the arrays of a struct."""
    for field in (*layout.fields, *layout.tagged):
        if field.name.startswith(FORGOTTEN) or not isinstance(field.shape, Array):
            continue
        element = array_element(field)
        if element is None:
            if field.shape.element == STRING and "topic" in field.name:
                yield _plain_names(field.name)
            continue
        inner = layout.nested(element)
        if "topic" in field.name and is_topic(inner):
            yield _topics(field.name, inner)
        elif {"resource_type", "resource_name"} <= {each.name for each in inner.fields}:
            yield _resources(field.name)
        else:
            for find in _in_struct(inner):
                yield _in_each(field.name, find)


def is_topic(layout: StructLayout) -> bool:
    """Whether a struct stands for a topic."""
    return any(
        (field.name in TOPIC_NAMES and field.shape == STRING) or (field.name == TOPIC_ID and field.shape == UUID)
        for field in layout.fields
    )


def partitions_of(layout: StructLayout) -> FieldLayout | None:
    """The array of partitions in a topic."""
    return next(
        (field for field in layout.fields if "partition" in field.name and isinstance(field.shape, Array)),
        None,
    )


def partition_number(layout: StructLayout) -> str | None:
    """The name of the field with a partition's number."""
    return next((field.name for field in layout.fields if field.name in PARTITIONS), None)


def _has_partitions(layout: StructLayout) -> bool:
    for field in layout.fields:
        element = array_element(field)
        if element is not None:
            inner = layout.nested(element)
            if (is_topic(inner) and partitions_of(inner) is not None) or _has_partitions(inner):
                return True
    return False


def _plain_names(array: str) -> Finder:
    def find(message: Any) -> Iterator[Named]:
        for name in getattr(message, array) or ():
            yield Named(name, ZERO_UUID, None)

    return find


def _resources(array: str) -> Finder:
    def find(message: Any) -> Iterator[Named]:
        for each in getattr(message, array) or ():
            if each.resource_type == _TOPIC_RESOURCE:
                yield Named(each.resource_name, ZERO_UUID, None)

    return find


def _in_each(array: str, inner: Finder) -> Finder:
    def find(message: Any) -> Iterator[Named]:
        for each in getattr(message, array) or ():
            yield from inner(each)

    return find


def _topics(array: str, layout: StructLayout) -> Finder:
    known = {field.name for field in layout.fields}
    name = next((each for each in TOPIC_NAMES if each in known), None)
    by_id = TOPIC_ID in known
    partitions = partitions_of(layout)
    element = None if partitions is None else array_element(partitions)
    number = None if element is None else partition_number(layout.nested(element))
    inner = None if partitions is None else partitions.name

    def find(message: Any) -> Iterator[Named]:
        for topic in getattr(message, array) or ():
            called = (getattr(topic, name) if name is not None else "") or ""
            topic_id = topic.topic_id if by_id else ZERO_UUID
            found = False
            for each in (getattr(topic, inner) if inner is not None else None) or ():
                if element is None:
                    found = True
                    yield Named(called, topic_id, each)
                elif number is not None:
                    found = True
                    yield Named(called, topic_id, getattr(each, number))
            if not found:
                yield Named(called, topic_id, None)

    return find
