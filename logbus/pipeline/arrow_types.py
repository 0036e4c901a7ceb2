"""Spark's types as Arrow's, with timestamps in UTC, by any version of Spark: their functions differ since 4.2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


def arrow_type(kind: DataType) -> Any:
    """The ``pyarrow.DataType`` of a column."""
    from pyspark.sql.pandas import types

    try:
        return types.to_arrow_type(kind, timezone="UTC")
    except TypeError:  # Spark 4.1, where timestamps are in UTC
        return types.to_arrow_type(kind)


def arrow_schema(schema: StructType) -> Any:
    """The ``pyarrow.Schema`` of rows."""
    from pyspark.sql.pandas import types

    try:
        return types.to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # Spark 4.1, where timestamps are in UTC
        return types.to_arrow_schema(schema)
