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


def check_schema(given: StructType, headers: bool) -> None:
    """
    Check a schema that the user gave.

    :raises OptionError: it is not the source's.
    """
    wanted = source_schema(headers)
    if [(each.name, each.dataType) for each in given] != [(each.name, each.dataType) for each in wanted]:
        raise OptionError(
            f"the schema is fixed, and cannot be {given.simpleString()}; leave it out, and take what is needed from "
            f"{wanted.simpleString()}"
        )
