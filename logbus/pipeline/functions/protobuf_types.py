"""
Protobuf messages as Spark's types, and values of both.

The types are those of Spark's ``from_protobuf`` with ``upcast.unsigned.ints`` and ``emit.default.values``: unsigned
numbers keep their values in wider types, and a field without presence (proto3) is its default where it is not set.
Fields with presence, and messages, are null then. Enums are their names, Timestamp is a timestamp, and Duration an
interval.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from logbus.pipeline.errors import OptionError
from logbus.pipeline.functions.column_function import Malformed

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

Convert = Callable[[Any], Any]

_TIMESTAMP, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_SECOND = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)


def spark_type(message: Any) -> StructType:
    """
    The type of a message.

    :param message: its descriptor.
    :raise OptionError: it has a type that no column can have; names the field.
    """
    return _struct(message, (), message.name)


def reader_of(message: Any) -> Convert:
    """
    A function that makes dictionaries of messages.

    :param message: a descriptor for which :func:`spark_type` returns a type.
    """
    parts = [(field.name, _reading(field)) for field in message.fields]
    return lambda value: {name: read(value) for name, read in parts}


def writer_of(message: Any) -> Callable[[Any, Any], None]:
    """
    A function that sets the fields of a message (first argument) to those of a dictionary (second); nulls are not set.

    :raise Malformed: (when it is called) a name is unknown, or a value does not fit.
    """
    parts = {field.name: _writing(field) for field in message.fields}

    def write(target: Any, value: Any) -> None:
        for name, each in value.items():
            if name not in parts:
                raise Malformed(f"{message.full_name} has no field {name!r}; it has {', '.join(parts)}")
            if each is None:
                continue
            try:
                parts[name](target, each)
            except (TypeError, ValueError, AttributeError, OverflowError) as e:
                if isinstance(e, Malformed):
                    raise
                raise Malformed(f"{message.full_name}.{name}: {e}") from None

    return write


# Types.


def _struct(message: Any, within: tuple[str, ...], path: str) -> StructType:
    from pyspark.sql.types import StructField, StructType

    if message.full_name in within:
        raise OptionError(f"{path}: {message.full_name} contains itself, which no column can")
    inner = (*within, message.full_name)
    fields = [StructField(each.name, _type(each, inner, f"{path}.{each.name}")) for each in message.fields]
    if not fields:
        raise OptionError(f"{path}: a message without fields, which no column can be")
    return StructType(fields)


def _type(field: Any, within: tuple[str, ...], path: str) -> DataType:
    from pyspark.sql.types import ArrayType, MapType

    if _is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return MapType(_single(key, within, path), _single(value, within, path), False)
    single = _single(field, within, path)
    return ArrayType(single, False) if field.is_repeated else single


def _single(field: Any, within: tuple[str, ...], path: str) -> DataType:
    from pyspark.sql import types as t

    if field.message_type is not None:
        name = field.message_type.full_name
        if name == _TIMESTAMP:
            return t.TimestampType()
        if name == _DURATION:
            return t.DayTimeIntervalType()
        return _struct(field.message_type, within, path)
    if field.type == field.TYPE_BYTES:
        return t.BinaryType()
    if field.type in (field.TYPE_UINT32, field.TYPE_FIXED32):
        return t.LongType()
    if field.type in (field.TYPE_UINT64, field.TYPE_FIXED64):
        return t.DecimalType(20, 0)
    found: DataType = {
        field.CPPTYPE_INT32: t.IntegerType(),
        field.CPPTYPE_INT64: t.LongType(),
        field.CPPTYPE_FLOAT: t.FloatType(),
        field.CPPTYPE_DOUBLE: t.DoubleType(),
        field.CPPTYPE_BOOL: t.BooleanType(),
        field.CPPTYPE_ENUM: t.StringType(),
        field.CPPTYPE_STRING: t.StringType(),
    }[field.cpp_type]
    return found


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


# Values that are read.


def _reading(field: Any) -> Convert:
    name = field.name
    if _is_map(field):
        item = _reading_single(field.message_type.fields_by_name["value"])
        # Arrow takes lists of pairs.
        return lambda message: [(key, item(each)) for key, each in getattr(message, name).items()]
    single = _reading_single(field)
    if field.is_repeated:
        return lambda message: [single(each) for each in getattr(message, name)]
    if field.has_presence and not field.has_default_value:
        return lambda message: single(getattr(message, name)) if message.HasField(name) else None
    return lambda message: single(getattr(message, name))


def _reading_single(field: Any) -> Convert:
    if field.message_type is not None:
        full_name = field.message_type.full_name
        if full_name in (_TIMESTAMP, _DURATION):
            # Microseconds, which Arrow takes for both types.
            return lambda value: value.seconds * 1_000_000 + value.nanos // 1000
        return reader_of(field.message_type)
    if field.enum_type is not None:
        names = {each.number: each.name for each in field.enum_type.values}
        return lambda value: names.get(value) or str(value)
    if field.type in (field.TYPE_UINT64, field.TYPE_FIXED64):
        return Decimal
    return lambda value: value


# Values that are written.


def _writing(field: Any) -> Callable[[Any, Any], None]:
    name = field.name
    if _is_map(field):
        value = field.message_type.fields_by_name["value"]
        if value.message_type is not None:
            fill = _filling(value.message_type)

            def map_of_messages(target: Any, given: Any) -> None:
                for key, each in given.items():
                    fill(getattr(target, name)[key], each)

            return map_of_messages
        single = _writing_single(value)
        return lambda target, given: getattr(target, name).update({key: single(each) for key, each in given.items()})
    if field.message_type is not None:
        fill = _filling(field.message_type)
        if field.is_repeated:

            def messages(target: Any, given: Any) -> None:
                for each in given:
                    fill(getattr(target, name).add(), each)

            return messages

        def message(target: Any, given: Any) -> None:
            getattr(target, name).SetInParent()
            fill(getattr(target, name), given)

        return message
    single = _writing_single(field)
    if field.is_repeated:
        return lambda target, given: getattr(target, name).extend([single(each) for each in given])
    return lambda target, given: setattr(target, name, single(given))


def _filling(message: Any) -> Callable[[Any, Any], None]:
    if message.full_name == _TIMESTAMP:
        return lambda target, given: target.FromDatetime(given)
    if message.full_name == _DURATION:

        def duration(target: Any, given: timedelta) -> None:
            seconds = abs(given) // _SECOND
            nanos = (abs(given) - seconds * _SECOND) // _MICROSECOND * 1000
            sign = -1 if given < timedelta(0) else 1
            target.seconds, target.nanos = sign * seconds, sign * nanos

        return duration
    return writer_of(message)


def _writing_single(field: Any) -> Convert:
    if field.enum_type is not None:
        numbers: dict[Any, int] = {each.name: each.number for each in field.enum_type.values}

        def number(value: Any) -> int:
            if value in numbers:
                return numbers[value]
            try:
                return int(value)
            except ValueError:
                raise Malformed(f"{value!r} is none of {', '.join(numbers)}") from None

        return number
    if field.cpp_type in (field.CPPTYPE_UINT64, field.CPPTYPE_UINT32):
        return int
    return lambda value: value
