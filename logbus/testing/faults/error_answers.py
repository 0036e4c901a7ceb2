"""
Makes the answer to a request that says it failed, in the version of the request, by the declarations of messages. Pure.

The answer is that of Kafka's ``AbstractRequest.getErrorResponse``: a code for each element of the request, and nothing
else that a client could take for a result: offsets and ids are −1, records are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import frozen

from logbus.errors import ErrorCode
from logbus.testing.faults.error_places import Level, Place, error_places, is_topic_result, keys_of, place_of
from logbus.testing.requests.partitions import PARTITIONS, TOPIC_ID, TOPIC_NAMES, Named, array_element
from logbus.wire.declaration import message_spec
from logbus.wire.layout import Array, FieldLayout, StructLayout, message_layout
from logbus.wire.messages import api
from logbus.wire.wire_types import BOOL, BYTES, RECORDS, STRING, UUID, ZERO_UUID

Wanted = Callable[[Named], bool]
"""Whether a topic and partition of a request fail."""

_MESSAGE = "error_message"
_IDENTITY = (TOPIC_ID, *TOPIC_NAMES)
_EMPTY = ((STRING, ""), (BYTES, b""), (UUID, ZERO_UUID), (BOOL, False))
_NUMBERS = (*PARTITIONS, "resource_type", "producer_id")
"""The numbers that tell what a request is about; others would be results."""


def everything(named: Named) -> bool:
    """All topics and partitions fail."""
    return True


@frozen
class ErrorAnswer:
    """
    The answer to a request, or to those of its elements that fail.

    :ivar message: the response.
    :ivar place: where its errors are.
    """

    message: Any
    place: Place


def error_answer(
    api_key: int, version: int, request: Any, error: ErrorCode, text: str | None = None, wanted: Wanted = everything
) -> ErrorAnswer | None:
    """
    The answer that a request failed.

    :param request: its message.
    :param text: for the message beside the code, where there is one; None: Kafka's sentence.
    :param wanted: which topics and partitions fail, where a code belongs to one.
    :returns: None: the request has no element that could fail, and its response no code of its own.
    """
    first = place_of(api_key, version, error)
    if first is None:
        return None
    layout = message_layout(message_spec(api(api_key).response), version)
    # A request for everything names no elements: then the error goes further out.
    shallower = [place for place in reversed(error_places(api_key, version)) if len(place.levels) < len(first.levels)]
    for place in (first, *shallower):
        made = _Maker(error, text or error.sentence, wanted, place).response(layout, request)
        if made is not None:
            return ErrorAnswer(made, place)
    return None


@frozen
class _Maker:
    error: ErrorCode
    text: str
    wanted: Wanted
    place: Place

    def response(self, layout: StructLayout, request: Any) -> Any:
        """The response; None: there is no element that fails."""
        levels = self.place.levels
        if not levels:
            return self._failed(layout, None)
        elements = list(self._elements(levels, request, ("", ZERO_UUID)))
        if not elements:
            return None
        return self._made(layout, request, {levels[0].array: elements})

    def _elements(self, levels: Sequence[Level], request: Any, topic: tuple[str, bytes]) -> Iterator[Any]:
        level, inner = levels[0], levels[1:]
        for source in (each for way in level.sources for each in _follow(request, way)):
            about = _topic_of(source) if is_topic_result(level.layout) else topic
            if inner:
                below = list(self._elements(inner, source, about))
                if below:
                    yield self._made(level.layout, source, {inner[0].array: below})
            elif self.wanted(Named(*about, _partition_of(source, level))) or about == ("", ZERO_UUID):
                yield self._failed(level.layout, source)

    def _failed(self, layout: StructLayout, source: Any) -> Any:
        names = {field.name for field in layout.fields}
        said = {self.place.code: self.error} | ({_MESSAGE: self.text} if _MESSAGE in names else {})
        return self._made(layout, source, said)

    def _made(self, layout: StructLayout, source: Any, values: dict[str, Any]) -> Any:
        """A struct of a response: given values, the keys of its source, and nothing else."""
        for field in (*layout.fields, *layout.tagged, *layout.absent):
            if field.name not in values and (field.name in _IDENTITY or field.spec.required):
                values[field.name] = _key(layout, field, source)
        return layout.cls(**values)


def _follow(request: Any, way: tuple[str, ...]) -> Iterator[Any]:
    """The elements of an array, perhaps within others."""
    for each in getattr(request, way[0]) or ():
        if len(way) > 1:
            yield from _follow(each, way[1:])
        else:
            yield each


def _topic_of(source: Any) -> tuple[str, bytes]:
    if isinstance(source, str):
        return source, ZERO_UUID
    name = next((value for each in TOPIC_NAMES if (value := getattr(source, each, ""))), "")
    return name or "", getattr(source, TOPIC_ID, ZERO_UUID)


def _partition_of(source: Any, level: Level) -> int | None:
    if is_topic_result(level.layout):
        return None
    if isinstance(source, int):
        return source
    return next((getattr(source, each) for each in PARTITIONS if hasattr(source, each)), None)


def _key(layout: StructLayout, field: FieldLayout, source: Any) -> Any:
    """The value of a field that the element of the request has as well, perhaps by another name; or nothing."""
    name = field.name
    if source is not None:
        if isinstance(source, (str, int)):
            keys = keys_of(layout)
            if keys and keys[0].name == name:
                return source
        elif hasattr(source, name):
            value, element = getattr(source, name), array_element(field)
            if element is not None:
                inner = layout.nested(element)
                return [_copy(inner, each) for each in value or () if _has_all(inner, each)]
            if not isinstance(value, int) or name in _NUMBERS:
                return value
        elif (found := _called_otherwise(name, source)) is not None:
            return found
        elif field.shape == STRING and keys_of(layout)[0].name == name:
            return next(
                (value for each in type(source).__slots__ if isinstance(value := getattr(source, each), str)), ""
            )
    return _nothing(field)


def _called_otherwise(name: str, source: Any) -> Any:
    for names in (PARTITIONS, TOPIC_NAMES):
        if name in names:
            return next((getattr(source, each) for each in names if hasattr(source, each)), None)
    return None


def _copy(layout: StructLayout, source: Any) -> Any:
    """A struct of a response with the values that a struct of the request has."""
    return layout.cls(**{field.name: getattr(source, field.name) for field in layout.fields})


def _has_all(layout: StructLayout, source: Any) -> bool:
    return all(hasattr(source, field.name) for field in layout.fields)


def _nothing(field: FieldLayout) -> Any:
    """The value of a field that says nothing."""
    shape = field.shape
    if shape == RECORDS:
        # Not null: librdkafka reads no further then.
        return b""
    if not field.spec.required:
        return field.spec.make_default()
    if field.nullable:
        return None
    if isinstance(shape, Array):
        return []
    return next((value for type_, value in _EMPTY if type_ == shape), -1)
