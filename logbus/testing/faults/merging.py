"""
Has a part of a request fail: takes this part out of the request, and puts its errors into the answer to the rest. Pure.
"""

from __future__ import annotations

from typing import Any

from logbus.errors import ErrorCode
from logbus.testing.faults.error_answers import ErrorAnswer, Wanted
from logbus.testing.faults.error_places import Level, is_topic_result
from logbus.testing.requests.partitions import (
    PARTITIONS,
    TOPIC_ID,
    TOPIC_NAMES,
    Named,
    array_element,
    is_topic,
    partition_number,
    partitions_of,
)
from logbus.wire.declaration import message_spec
from logbus.wire.error_codes import NAMES
from logbus.wire.layout import FieldLayout, StructLayout, message_layout
from logbus.wire.messages import api
from logbus.wire.schema import replaced
from logbus.wire.wire_types import ZERO_UUID


def without(api_key: int, version: int, request: Any, wanted: Wanted) -> Any:
    """
    A request without the topics and partitions that fail.

    :returns: None: nothing is left of it.
    """
    return _without(message_layout(message_spec(api(api_key).request), version), request, wanted)


def _without(layout: StructLayout, struct: Any, wanted: Wanted) -> Any:
    """None: an array of topics, or of structs with topics, became empty."""
    values: dict[str, list[Any]] = {}
    for field in (*layout.fields, *layout.tagged):
        element = array_element(field)
        before = getattr(struct, field.name)
        if element is None or not before:
            continue
        inner = layout.nested(element)
        if "topic" in field.name and is_topic(inner):
            left = [kept for each in before if (kept := _rest_of_topic(inner, each, wanted)) is not None]
        else:
            left = [kept for each in before if (kept := _without(inner, each, wanted)) is not None]
        if not left:
            return None
        values[field.name] = left
    return replaced(struct, **values)


def _rest_of_topic(layout: StructLayout, topic: Any, wanted: Wanted) -> Any:
    called = next((value for name in TOPIC_NAMES if (value := getattr(topic, name, ""))), "")
    topic_id = getattr(topic, TOPIC_ID, ZERO_UUID)
    partitions: FieldLayout | None = partitions_of(layout)
    before = [] if partitions is None else getattr(topic, partitions.name) or []
    if partitions is None or not before:
        return None if wanted(Named(called, topic_id, None)) else topic
    element = array_element(partitions)
    number = None if element is None else partition_number(layout.nested(element))
    left = [
        each
        for each in before
        if not wanted(Named(called, topic_id, each if number is None else getattr(each, number)))
    ]
    return replaced(topic, **{partitions.name: left}) if left else None


def merge(answer: Any, errors: ErrorAnswer) -> Any:
    """
    The answer to a request, with the errors of some of its elements.

    :param answer: to the request, or to the rest of it; it is changed.
    """
    if not errors.place.levels:
        return errors.message
    _merge(errors.place.levels, answer, errors.message)
    return answer


def _merge(levels: tuple[Level, ...], answer: Any, errors: Any) -> None:
    level, inner = levels[0], levels[1:]
    present = list(getattr(answer, level.array) or ())
    for failed in getattr(errors, level.array):
        at = next((i for i, each in enumerate(present) if _is_same(level, each, failed)), None)
        if at is None:
            present.append(failed)
        elif inner:
            _merge(inner, present[at], failed)
        else:
            present[at] = failed
    setattr(answer, level.array, present)


def _is_same(level: Level, one: Any, other: Any) -> bool:
    """Whether two elements are about the same."""
    if is_topic_result(level.layout):
        names = [name for name in TOPIC_NAMES if hasattr(one, name)]
        by_id = getattr(one, TOPIC_ID, ZERO_UUID), getattr(other, TOPIC_ID, ZERO_UUID)
        if ZERO_UUID not in by_id:
            return bool(by_id[0] == by_id[1])
        return any(getattr(one, name) == getattr(other, name) for name in names)
    if partition_number(level.layout) is not None:
        return any(getattr(one, name) == getattr(other, name) for name in PARTITIONS if hasattr(one, name))
    keys = [field.name for field in level.layout.fields if field.spec.required]
    return bool(keys) and all(getattr(one, name) == getattr(other, name) for name in keys)


def set_all(answer: Any, error: ErrorCode) -> Any:
    """An answer with an error at each place that it has; for requests that name nothing. It is changed."""
    for name in type(answer).__slots__:
        value = getattr(answer, name)
        if name in NAMES:
            setattr(answer, name, error)
        elif isinstance(value, list):
            for each in value:
                if hasattr(type(each), "__slots__"):
                    set_all(each, error)
    return answer
