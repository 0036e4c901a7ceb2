"""
JSON values with a JSON schema as columns, and back.

Spark's own functions parse and write the JSON, so that no Python runs for a row. Values are not validated: what does
not have the type of its column is null or an error, as in ``from_json``; other rules of the schema are for producers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from logbus.client.schema.schema_frame import frame
from logbus.pipeline.blocking.schema_registry import RegistryClient
from logbus.pipeline.errors import OptionError
from logbus.pipeline.functions.json_schema_types import spark_schema
from logbus.pipeline.functions.reading_schema import (
    FAILFAST,
    LATEST,
    PERMISSIVE,
    checked_mode,
    client_of,
    reading_schema,
    writing_schema,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

_TYPE = "JSON"
_ID_BYTES = 5
_LONGEST = 2**31 - 1

_WRITING = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Spark would write milliseconds."""


def from_json_schema(
    data: Column | str,
    registry: RegistryClient | str,
    subject: str = "",
    *,
    version: int | str = LATEST,
    schema: str = "",
    mode: str = FAILFAST,
) -> Column:
    """
    Decode JSON values in the registry's wire format.

    :param data: a binary column.
    :param registry: or its URL.
    :param subject: whose ``version`` is the schema of the column, such as ``orders-value``.
    :param schema: the schema of the column as text, instead of ``subject``.
    :param mode: ``FAILFAST``: a value that cannot be read ends the query; ``PERMISSIVE``: it becomes null if it does
        not begin with a schema's id, else those of its fields do that cannot be read: all of them, if it is no JSON.
    :return: a struct; see :mod:`~logbus.pipeline.functions.json_schema_types`.
    :raise OptionError: the schema is not of an object, or refers to others.
    :raise RegistryFailed: the registry does not have it, or does not answer.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    mode = checked_mode(mode)
    text = reading_schema(client_of(registry), _TYPE, subject, version, schema).text
    try:
        kind = StructType.fromJson(spark_schema(json.loads(text)))
    except ValueError as e:
        if isinstance(e, OptionError):
            raise
        raise OptionError(f"not a JSON schema: {e}") from None
    column = f.col(data) if isinstance(data, str) else data
    framed = (f.substring(column, 1, 1) == f.unhex(f.lit("00"))) & (f.octet_length(column) > _ID_BYTES)
    value = f.from_json(f.substring(column, _ID_BYTES + 1, _LONGEST).cast("string"), kind, {"mode": mode})
    if mode == PERMISSIVE:
        return f.when(framed, value)
    unframed = f.raise_error(
        f.concat(
            f.lit("from_json_schema: a value begins with "),
            f.hex(f.substring(column, 1, _ID_BYTES)),
            f.lit(f", not with a byte 0 and a schema's id in four bytes; mode='{PERMISSIVE}' makes such values null"),
        )
    )
    return f.when(column.isNull() | framed, value).otherwise(unframed.cast(kind))


def to_json_schema(
    data: Column | str,
    registry: RegistryClient | str,
    subject: str,
    *,
    version: int | str = LATEST,
    schema: str = "",
    register: bool = False,
) -> Column:
    """
    Encode values as JSON, in the registry's wire format. They are not validated; fields that are null are left out.

    :param data: a struct or a map.
    :param registry: or its URL.
    :param subject: whose ``version`` the values are written with, such as ``orders-value``.
    :param schema: the schema as text, which must be one of the subject's.
    :param register: register ``schema`` first.
    :return: a binary column.
    :raise RegistryFailed: the registry does not have it, refuses it, or does not answer.
    """
    from pyspark.sql import functions as f

    found = writing_schema(client_of(registry), _TYPE, subject, version, schema, register)
    column = f.col(data) if isinstance(data, str) else data
    header = f.unhex(f.lit(frame(found.schema_id, b"").hex()))
    return f.concat(header, f.to_json(column, _WRITING).cast("binary"))
