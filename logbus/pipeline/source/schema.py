"""The schema of ``format("logbus")``: the columns of Spark's Kafka source."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from logbus.pipeline.errors import OptionError


def source_schema(headers: bool) -> StructType:
    """
    The schema of the rows read.

    :param headers: with the column ``headers``.
    """
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if headers:
        header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        fields.append(StructField("headers", ArrayType(header)))
    return StructType(fields)


def wanted_columns(given: StructType, headers: bool) -> tuple[str, ...]:
    """
    The columns of a schema that the user gave, in its order: the others are not read.

    :raises OptionError: it has none, one twice, or one that the source does not have.
    """
    there = source_schema(headers)
    types = {each.name: each.dataType for each in there}
    for each in given:
        if types.get(each.name) != each.dataType:
            hint = "; headers needs the option includeHeaders" if each.name == "headers" and not headers else ""
            raise OptionError(
                f"the schema has {each.name} {each.dataType.simpleString()}; it takes columns of "
                f"{there.simpleString()}{hint}"
            )
    names = tuple(each.name for each in given)
    if not names or len(set(names)) < len(names):
        raise OptionError("the schema needs at least one column, and none twice")
    return names
