"""
Check that topics of two clusters hold the same records.

A record is its key, value, headers and, unless that is not wanted, its time. Offsets do not matter, as a copy has its
own; partitions do, unless that is not wanted. Each side may have a record several times: it must be there as often on
the other. Records are compared by 128 bits of their hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import asdict, field, frozen

from logbus.pipeline.errors import OptionError
from logbus.pipeline.jobs.watching import Watch
from logbus.pipeline.source.options import read as read_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_LEAST = "kafka.isolation.level"


@frozen(kw_only=True)
class MirrorOptions:
    """
    What to compare.

    :ivar source: options of ``format("logbus")`` for the original;  ``mirror``: for the copy. Unless they say
        otherwise, what is committed is read. Where records still come in, let both end at a time that is past.
    :ivar rename: the copy's names of topics, by the original's, where they differ.
    :ivar partitions: whether a record must be in the partition of the same number.
    :ivar timestamps: whether it must have the same time.
    :ivar examples: differences that are shown of each topic and side.
    :raise OptionError: an option is wrong.
    """

    source: Mapping[str, str]
    mirror: Mapping[str, str]
    rename: Mapping[str, str] = field(factory=dict)
    partitions: bool = True
    timestamps: bool = True
    examples: int = 10

    def __attrs_post_init__(self) -> None:
        for side in ("source", "mirror"):
            given = getattr(self, side)
            if not any(name.lower() == _LEAST for name in given):
                given = {_LEAST: "read_committed", **given}
            if not any(name.lower() == "includeheaders" for name in given):
                given = {"includeHeaders": "true", **given}
            object.__setattr__(self, side, given)
            read_options(given, streaming=False)
        if len(set(self.rename.values())) < len(self.rename):
            raise OptionError("two topics cannot have the same name in the copy")
        if self.examples < 0:
            raise OptionError(f"examples is {self.examples}; it takes a number from 0")


@frozen
class Difference:
    """Where one of the records is that the other side lacks, and how many more of them there are on this side."""

    partition: int
    offset: int
    timestamp: str
    more: int


@frozen
class TopicMirror:
    """
    A topic, by its name in the original.

    :ivar missing: records that the copy lacks;  ``extra``: that it has and the original has not, or has less often.
    """

    topic: str
    source: int
    mirror: int
    missing: int
    extra: int
    missing_examples: tuple[Difference, ...] = ()
    extra_examples: tuple[Difference, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not self.missing and not self.extra


@frozen
class MirrorReport:
    """All topics, by name."""

    topics: tuple[TopicMirror, ...]

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return all(each.is_same for each in self.topics)

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {"same": self.is_same, **asdict(self)}


def run(spark: SparkSession, options: MirrorOptions, watch: Watch | None = None) -> MirrorReport:
    """Compare."""
    from pyspark.sql import functions as f

    watch = watch or Watch()
    names = {theirs: ours for ours, theirs in options.rename.items()}
    renamed: Column = f.col("topic")
    for theirs, ours in names.items():
        renamed = f.when(f.col("topic") == theirs, ours).otherwise(renamed)
    source = _hashed(spark, options, options.source, f.col("topic"))
    mirror = _hashed(spark, options, options.mirror, renamed)
    by = ["topic", "first", "second"]
    both = (
        source.groupBy(*by)
        .agg(f.count(f.lit(1)).alias("a"), f.min("place").alias("a_place"))
        .join(mirror.groupBy(*by).agg(f.count(f.lit(1)).alias("b"), f.min("place").alias("b_place")), by, "full_outer")
        .select(
            "topic",
            f.coalesce("a", f.lit(0)).alias("a"),
            f.coalesce("b", f.lit(0)).alias("b"),
            "a_place",
            "b_place",
        )
        .persist()
    )
    try:
        sums = both.groupBy("topic").agg(
            f.sum("a").alias("a"),
            f.sum("b").alias("b"),
            f.sum(f.greatest(f.col("a") - f.col("b"), f.lit(0))).alias("missing"),
            f.sum(f.greatest(f.col("b") - f.col("a"), f.lit(0))).alias("extra"),
        )
        topics = []
        for row in sums.orderBy("topic").collect():
            here = both.where(f.col("topic") == row["topic"])
            topics.append(
                TopicMirror(
                    row["topic"],
                    row["a"],
                    row["b"],
                    row["missing"],
                    row["extra"],
                    _examples(here, "a", "b", options.examples) if row["missing"] else (),
                    _examples(here, "b", "a", options.examples) if row["extra"] else (),
                )
            )
            watch.tell(
                f"{row['topic']}: {row['a']} records, {row['missing']} missing, {row['extra']} extra in the copy"
            )
    finally:
        both.unpersist()
    return MirrorReport(tuple(topics))


def _hashed(spark: SparkSession, options: MirrorOptions, source: Mapping[str, str], topic: Column) -> DataFrame:
    """Records as their topic, two hashes, and where they are."""
    from pyspark.sql import functions as f

    records = spark.read.format("logbus").options(**source).load()
    # A hash passes nulls over: an empty value is told from none by a column of its own.
    parts = [f.col("key").isNull(), f.col("key"), f.col("value").isNull(), f.col("value"), f.size("headers")]
    parts.append(f.to_json("headers"))
    if options.partitions:
        parts.append(f.col("partition"))
    if options.timestamps:
        parts.append(f.col("timestamp"))
    return records.select(
        topic.alias("topic"),
        f.xxhash64(*parts).alias("first"),
        f.xxhash64(f.lit("another"), *parts).alias("second"),
        f.struct("partition", "offset", f.col("timestamp").cast("string").alias("timestamp")).alias("place"),
    )


def _examples(rows: DataFrame, more: str, less: str, count: int) -> tuple[Difference, ...]:
    from pyspark.sql import functions as f

    place = f"{more}_place"
    found = (
        rows.where(f.col(more) > f.col(less))
        .orderBy(place)
        .select(f"{place}.*", (f.col(more) - f.col(less)).alias("more"))
        .limit(count)
    )
    return tuple(
        Difference(each["partition"], each["offset"], each["timestamp"], each["more"]) for each in found.collect()
    )
