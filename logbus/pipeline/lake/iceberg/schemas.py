"""Spark's schemas and directories as Iceberg's schemas and partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from logbus.pipeline import arrow_types
from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.layout import DATE, HOUR, TIME_OF

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema

_EPOCH = date(1970, 1, 1)


def as_nullable(kind: Any) -> Any:
    """A schema or type, as Spark's JSON, in which all may be null: rows of another time may lack a column."""
    if isinstance(kind, Mapping):
        return {
            name: True if name in ("nullable", "containsNull", "valueContainsNull") else as_nullable(value)
            for name, value in kind.items()
        }
    return [as_nullable(each) for each in kind] if isinstance(kind, list) else kind


def hidden(schema: Mapping[str, Any], directories: Sequence[str]) -> str:
    """
    The column whose hours or days are the directories, so that these need not be columns of the table.

    :param schema: of rows, with the directories, as Spark's JSON.
    :returns: a path, such as ``event.at``; "": the directories are columns.
    """
    found = {each["name"]: each.get("metadata", {}).get(TIME_OF, "") for each in schema["fields"]}
    times = {found.get(name, "") for name in directories}
    return times.pop() if len(times) == 1 else ""


def visible(schema: Mapping[str, Any], directories: Sequence[str]) -> dict[str, Any]:
    """The schema of the table's rows: without directories that are hidden partitions."""
    left_out = directories if hidden(schema, directories) else ()
    return {**schema, "fields": [each for each in schema["fields"] if each["name"] not in left_out]}


def arrow_schema(table: str, schema: Mapping[str, Any]) -> Any:
    """
    The ``pyarrow.Schema`` of a table's new columns.

    :param schema: as Spark's JSON.
    :raise LakeError: Iceberg has no such type; it names the column.
    """
    import pyarrow as pa
    from pyiceberg.io.pyarrow import pyarrow_to_schema
    from pyspark.sql.types import StructType

    fields = []
    for each in as_nullable(dict(schema))["fields"]:
        try:
            kind = arrow_types.arrow_schema(StructType.fromJson({"type": "struct", "fields": [each]}))
            pyarrow_to_schema(_numbered(kind))
        except Exception as e:  # Of either package, and each has several.
            raise LakeError(f"{table}: column {each['name']!r} is of type {each['type']}, which Iceberg lacks") from e
        fields.append(kind.field(0))
    return pa.schema(fields)


def _numbered(schema: Any) -> Any:
    """A schema with ids, which PyIceberg asks for, to see whether it knows the types."""
    from pyiceberg.catalog import Catalog
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(Catalog._convert_schema_if_needed(schema))


def check_names(table: str, schema: Schema, names: Sequence[str]) -> None:
    """
    Check that readers can tell a table's columns from those of new rows, and find all that they need in these.

    :param schema: of the table, which another program may have made or changed.
    :param names: of the rows' columns.
    :raise LakeError: a name differs from the table's in case only, or the rows lack a required column.
    """
    spellings = {each.name.lower(): each.name for each in schema.fields}
    for name in names:
        if (known := spellings.get(name.lower(), name)) != name and name not in spellings.values():
            raise LakeError(
                f"{table}: column {name!r} of the new rows and {known!r} differ in case only: call it by one name"
            )
    for each in schema.fields:
        if each.required and each.initial_default is None and each.name not in names:
            raise LakeError(
                f"{table}: column {each.name!r} is required, and the new rows lack it; let it be null, or write to a "
                "table of its own"
            )


def file_schema(schema: Schema, names: Sequence[str]) -> Any:
    """The ``pyarrow.Schema`` of a data file: the table's columns that rows have, with their ids."""
    import pyarrow as pa
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return pa.schema([each for each in schema_to_pyarrow(schema) if each.name in names])


def partition_fields(directories: Sequence[str], time: str) -> list[tuple[str, Any, str]]:
    """
    The fields of a new table's partition spec.

    :param time: the column with the time, whose days or hours are the directories; "": these are columns.
    :returns: source column, transform and name. Hours are of the whole time, so that they need no days beside them.
    """
    from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform

    if time:
        stem = time.replace(".", "_")
        return (
            [(time, HourTransform(), f"{stem}_hour")]
            if HOUR in directories
            else [(time, DayTransform(), f"{stem}_day")]
        )
    return [(name, IdentityTransform(), name if "." not in name else name.replace(".", "_")) for name in directories]


def directories_of(table: str, spec: PartitionSpec, schema: Schema) -> tuple[str, ...]:
    """
    The directories that a table has by its partition spec.

    :raise LakeError: a load does not make such partitions.
    """
    from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, VoidTransform

    fields = [each for each in spec.fields if not isinstance(each.transform, VoidTransform)]
    kinds = [type(each.transform) for each in fields]
    if kinds == [HourTransform]:
        return (DATE, HOUR)
    if kinds == [DayTransform]:
        return (DATE,)
    if all(kind is IdentityTransform for kind in kinds):
        return tuple(schema.find_column_name(each.source_id) or each.name for each in fields)
    said = ", ".join(f"{each.transform}({schema.find_column_name(each.source_id)})" for each in fields)
    raise LakeError(
        f"{table} is partitioned by {said}; a load makes partitions by day or hour of a time, or by a column's values"
    )


def partition_record(spec: PartitionSpec, schema: Schema, values: Mapping[str, Any]) -> Any:
    """
    The partition of a data file.

    :param values: of its directories, by their names.
    """
    from pyiceberg.typedef import Record

    return Record(*(_partition_value(each, schema, values) for each in spec.fields))


def _partition_value(of: PartitionField, schema: Schema, values: Mapping[str, Any]) -> Any:
    from pyiceberg.partitioning import partition_record_value
    from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform

    if isinstance(of.transform, IdentityTransform):
        return partition_record_value(of, values[schema.find_column_name(of.source_id) or of.name], schema)
    if not isinstance(of.transform, (DayTransform, HourTransform)):
        return None
    days = (date.fromisoformat(values[DATE]) - _EPOCH).days
    return days * 24 + int(values[HOUR]) if isinstance(of.transform, HourTransform) else days
