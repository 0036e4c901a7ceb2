"""Makes a function of columns of a Python function of single values, by way of Arrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # Spark reads a function's types from the module's names.

from logbus.pipeline.arrow_types import arrow_type
from logbus.pipeline.error_text import without_traceback
from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.functions.reading_schema import PERMISSIVE

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

Convert = Callable[[Any], Any]
WRITING = ""
"""The mode of a function that writes: a value that does not fit ends the query."""

_UNFIT = (pa.ArrowException, ValueError, TypeError, OverflowError)
_LONGEST = 300


class Malformed(ValueError):
    """A value cannot be read or written; the message says why."""


class MalformedValue(PipelineError):
    """A value cannot be read or written, and is not to become null."""


def column_function(name: str, prepared: Callable[[], Convert], result: DataType, mode: str) -> Callable[[Any], Column]:
    """
    A function of a column; null stays null.

    :param name: as it is shown in plans.
    :param prepared: called in a worker, for each batch of rows; returns what converts a value, or raises
        :exc:`Malformed` for it. It is pickled; what it looks up should be cached.
    :param result: the type of the column.
    :param mode: of :mod:`~logbus.pipeline.functions.reading_schema`, of a function that reads; :data:`WRITING`.
    """
    from pyspark.sql.pandas.functions import arrow_udf

    @without_traceback
    def convert(values: pa.Array) -> pa.Array:
        return converted(name, values, prepared(), arrow_type(result), mode)

    def call(values: pa.Array) -> pa.Array:
        return convert(values)

    call.__name__ = name
    made: Callable[[Any], Column] = arrow_udf(call, result)  # type: ignore[call-overload]
    return made


def converted(name: str, values: pa.Array, convert: Convert, kind: pa.DataType, mode: str) -> pa.Array:
    """
    Convert the values of a batch.

    :raise MalformedValue: one cannot be converted, and the mode is not PERMISSIVE.
    :raise OptionError: a function that reads is given a column that is not binary.
    """
    if mode != WRITING and not _is_binary(values.type):
        raise OptionError(f"{name} reads a binary column, and this one is {values.type}: a record's are value and key")
    ready = python_of(values.type)
    found: list[Any] = []
    for value in values.to_pylist():
        if value is None:
            found.append(None)
            continue
        try:
            found.append(convert(value if ready is None else ready(value)))
        except Malformed as e:
            found.append(_unfit(name, e, mode))
    try:
        return pa.array(found, kind)
    except _UNFIT:
        # An int of more than 32 bits, or a decimal with too many digits: find which.
        return pa.array([_fitting(name, each, kind, mode) for each in found], kind)


def python_of(kind: pa.DataType) -> Convert | None:
    """
    A function that makes dictionaries of Arrow's maps, which are lists of pairs, in values of a type; None: nothing to
    do.
    """
    if pa.types.is_map(kind):
        item = python_of(kind.item_type)
        return lambda value: {key: item(each) if item and each is not None else each for key, each in value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = python_of(kind.value_type)
        if element is None:
            return None
        return lambda value: [None if each is None else element(each) for each in value]
    if pa.types.is_struct(kind):
        parts = {field.name: part for field in kind if (part := python_of(field.type)) is not None}
        if not parts:
            return None
        return lambda value: {
            key: parts[key](each) if key in parts and each is not None else each for key, each in value.items()
        }
    return None


def _fitting(name: str, value: Any, kind: pa.DataType, mode: str) -> Any:
    try:
        pa.array([value], kind)
    except _UNFIT as e:
        return _unfit(name, Malformed(f"the value does not fit its column: {e}"), mode)
    return value


def _unfit(name: str, error: Malformed, mode: str) -> Any:
    if mode == PERMISSIVE:
        return None
    hint = "" if mode == WRITING else f"; mode='{PERMISSIVE}' makes such values null"
    raise MalformedValue(f"{name}: {error!s:.{_LONGEST}}{hint}") from None


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_null(kind))
