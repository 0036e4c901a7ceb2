"""
kio as the oracle: its codecs are generated from Kafka's own definitions.

Its classes are like ours but for spelling: one class per version, ``timeout_ms`` becomes a ``timeout`` that is a
timedelta, error codes are members of an enum, and a UUID of zeros is None.
"""

from __future__ import annotations

import dataclasses
import io
import typing
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from logbus.wire.declaration import MessageSpec
from logbus.wire.layout import Array, FieldLayout, StructLayout, all_fields
from logbus.wire.messages import api_name
from logbus.wire.wire_types import ZERO_UUID
from tests.wire.instances import Chooser

_ERROR_CODES = [code.value for code in ErrorCode]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# kio goes through floats, which lose the milliseconds of later centuries.
_LAST_DAY = 4_102_444_800_000
# Tagged fields of our own, which Kafka does not know.
_OURS: dict[tuple[str, str], Any] = {
    ("ShareLeader", "log_end_offset"): -1,
    ("ShareLeader", "log_epochs"): [],
}


def kio_class(spec: MessageSpec, version: int) -> Any | None:
    """kio's class for one version of a message, None if it has none."""
    name = spec.cls.__name__
    if spec.api_key is not None:
        name = api_name(spec.api_key)
    kind = {"request": EntityType.request, "response": EntityType.response, "data": EntityType.data}[spec.kind]
    module = "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).lstrip("_")
    path = schema_name_map.get(module, {}).get(version, {}).get(kind)  # type: ignore[call-overload]
    if path is None:
        return None
    where, attribute = path.split(":")
    return getattr(__import__(where, fromlist=[attribute]), attribute)


def write(entity: Any) -> bytes:
    """kio's bytes for one of its objects."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def read(cls: Any, data: bytes) -> Any:
    """kio's object for these bytes, all of which must be used."""
    entity, used = entity_reader(cls)(data, 0)
    assert used == len(data), f"kio used {used} of {len(data)} bytes"
    return entity


def pairs(layout: StructLayout, theirs: Any) -> list[tuple[FieldLayout, Any]]:
    """Our fields beside kio's, which stand in the same order; their names must agree but for kio's habits."""
    sent = {each.name for each in (*layout.fields, *layout.tagged)}
    ours = [each for each in all_fields(layout.cls, layout.version) if each.name in sent and not _is_ours(layout, each)]
    fields = dataclasses.fields(theirs)
    assert len(ours) == len(fields), f"{theirs}: {[each.name for each in ours]} beside {[f.name for f in fields]}"
    for each, field in zip(ours, fields, strict=True):
        assert each.name.removesuffix("_ms") == field.name.rstrip("_").removesuffix("_ms"), f"{each} and {field.name}"
        assert each.spec.tag == field.metadata.get("tag"), f"{each} and {field.name}"
    return list(zip(ours, fields, strict=True))


def _is_ours(layout: StructLayout, each: FieldLayout) -> bool:
    return (layout.cls.__name__, each.name) in _OURS


def chooser(layout: StructLayout, theirs: Any) -> Chooser:
    """Keep to what kio can hold: error codes it knows, times that are dates."""
    limits: dict[tuple[str, ...], st.SearchStrategy[Any]] = {}

    def visit(layout: StructLayout, theirs: Any, path: tuple[str, ...]) -> None:
        for (name, own), default in _OURS.items():
            if name == layout.cls.__name__:
                limits[*path, own] = st.just(default)
        for each, field in pairs(layout, theirs):
            here = (*path, each.name)
            match field.metadata.get("kafka_type"):
                case "error_code":
                    limits[here] = st.sampled_from(_ERROR_CODES)
                case "timedelta_i64":
                    limits[here] = st.integers(-_LAST_DAY, _LAST_DAY)
                case "datetime_i64":
                    limits[here] = st.integers(-1 if _optional(field) else 0, _LAST_DAY)
            inner = each.shape.element if isinstance(each.shape, Array) else each.shape
            if isinstance(inner, type):
                visit(layout.nested(inner), _struct(field), here)

    visit(layout, theirs, ())
    return limits.get


def to_kio(message: Any, layout: StructLayout, theirs: Any) -> Any:
    """Our message as an object of kio's."""
    values = {}
    for each, field in pairs(layout, theirs):
        value = getattr(message, each.name)
        if isinstance(each.shape, type) and each.spec.tag is not None and value is None and not each.marked:
            continue
        values[field.name] = _convert(value, each.shape, layout, field)
    return theirs(**values)


def _convert(value: Any, shape: Any, layout: StructLayout, field: Any) -> Any:
    if isinstance(shape, Array):
        if value is None:
            return None
        return tuple(_convert(item, shape.element, layout, field) for item in value)
    if isinstance(shape, type):
        return None if value is None else to_kio(value, layout.nested(shape), _struct(field))
    match field.metadata["kafka_type"]:
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 and _optional(field) else _EPOCH + timedelta(milliseconds=value)
        case "uuid":
            return None if value == ZERO_UUID else uuid.UUID(bytes=value)
        case "records" | "bytes":
            return None if value is None else bytes(value)
    return value


def _optional(field: Any) -> bool:
    return type(None) in typing.get_args(field.type)


def _struct(field: Any) -> Any:
    """The class of the structs in a field of kio's."""
    found = field.type
    while not dataclasses.is_dataclass(found):
        found = next(arg for arg in typing.get_args(found) if arg not in (type(None), ...))
    return found
