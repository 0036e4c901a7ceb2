"""
Hashes the records of two clusters, and counts each hash on either side.

One shuffle brings equal records together. Of records that occur as often on both sides only the counts are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SIDES = ("source", "mirror")

Place = tuple[int, int, int, int]
"""Partition, offset and time of a record, and how many more of it there are than on the other side."""


def hashed_records(
    spark: SparkSession,
    source: Mapping[str, str],
    span: tuple[int | None, int | None],
    names: Mapping[str, str],
    *,
    partitions: bool,
    timestamps: bool,
    compacted: bool,
) -> DataFrame:
    """
    The records of one side: ``topic``, ``first`` and ``second`` (their hash), and ``place``.

    :param span: the start and end of the records' times, in milliseconds since 1970.
    :param names: the original's topic names, by this side's.
    """
    from pyspark.sql import functions as f

    records = spark.read.format("logbus").options(**source).load()
    at_ms = f.unix_millis("timestamp")
    since, until = span
    # The source's offsets are approximate, since records need not be in the order of their times. Which record is the
    # last of its key does not depend on times.
    if since is not None and not compacted:
        records = records.where(at_ms >= since)
    if until is not None:
        records = records.where(at_ms < until)
    topic: Column = f.col("topic")
    for theirs, ours in names.items():
        topic = f.when(f.col("topic") == theirs, ours).otherwise(topic)
    # A hash ignores nulls: a column of its own tells null from an empty value.
    parts = [f.col("key").isNull(), f.col("key"), f.col("value").isNull(), f.col("value")]
    if "headers" in records.columns:
        # JSON distinguishes null from empty content, which is in base64.
        parts.append(f.coalesce(f.to_json("headers"), f.lit("")))
    if partitions:
        parts.append(f.col("partition"))
    if timestamps:
        parts.append(f.col("timestamp"))
    hashed = (
        f.xxhash64(*parts).alias("first"),
        f.xxhash64(f.lit("another"), *parts).alias("second"),
        f.struct("partition", "offset", at_ms.alias("at_ms")).alias("place"),
    )
    if not compacted:
        return records.select(topic.alias("topic"), *hashed)
    # Each record without a key counts.
    alone = f.when(f.col("key").isNull(), f.col("offset"))
    last = records.groupBy(topic.alias("topic"), "partition", "key", alone).agg(
        f.max_by(f.struct(f.col("value").isNull().alias("is_deleted"), *hashed), "offset").alias("last")
    )
    if since is not None:
        last = last.where(f.col("last.place.at_ms") >= since)
    return last.where("not last.is_deleted or key is null").select("topic", "last.first", "last.second", "last.place")


def record_counts(source: DataFrame, mirror: DataFrame) -> DataFrame:
    """
    The count of each record on either side: ``topic``, ``source``, ``mirror``, and if they differ ``place``, on the
    side that has more.
    """
    from pyspark.sql import functions as f

    both = source.withColumn("is_copy", f.lit(0)).unionByName(mirror.withColumn("is_copy", f.lit(1)))
    counted = both.groupBy("topic", "first", "second").agg(
        f.count_if(f.col("is_copy") == 0).alias("source"),
        f.count_if(f.col("is_copy") == 1).alias("mirror"),
        f.min(f.when(f.col("is_copy") == 0, f.col("place"))).alias("in_source"),
        f.min(f.when(f.col("is_copy") == 1, f.col("place"))).alias("in_mirror"),
    )
    place = f.when(f.col("source") > f.col("mirror"), f.col("in_source")).when(
        f.col("mirror") > f.col("source"), f.col("in_mirror")
    )
    return counted.select("topic", "source", "mirror", place.alias("place"))


def totals_of(both: DataFrame) -> dict[str, dict[str, int]]:
    """By topic: the records in ``source`` and ``mirror``, and those ``missing`` and ``extra`` in the mirror."""
    from pyspark.sql import functions as f

    missing = f.greatest(f.col("source") - f.col("mirror"), f.lit(0))
    extra = f.greatest(f.col("mirror") - f.col("source"), f.lit(0))
    sums = both.groupBy("topic").agg(
        f.sum("source").alias("source"),
        f.sum("mirror").alias("mirror"),
        f.sum(missing).alias("missing"),
        f.sum(extra).alias("extra"),
    )
    return {row["topic"]: {name: row[name] for name in sums.columns[1:]} for row in sums.collect()}


def examples_of(both: DataFrame, count: int) -> dict[tuple[str, str], list[Place]]:
    """The first ``count`` differences of each topic and side, by their position."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    more = f.col("source") - f.col("mirror")
    found = both.where(more != 0).select(
        "topic", f.when(more > 0, SIDES[0]).otherwise(SIDES[1]).alias("side"), "place", f.abs(more).alias("more")
    )
    rank = f.row_number().over(Window.partitionBy("topic", "side").orderBy("place"))
    first = found.withColumn("rank", rank).where(f.col("rank") <= count).orderBy("topic", "side", "place")
    examples: dict[tuple[str, str], list[Place]] = {}
    for row in first.select("topic", "side", "place.*", "more").collect():
        place = (row["partition"], row["offset"], row["at_ms"], row["more"])
        examples.setdefault((row["topic"], row["side"]), []).append(place)
    return examples
