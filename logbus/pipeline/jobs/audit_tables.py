"""
Counts the records of a table by topic and time window.

A row whose offset another row has is counted separately: else a duplicate would make up for a lost record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import field, frozen

from logbus.pipeline.errors import OptionError
from logbus.pipeline.lake.formats import check_exists, check_format, is_on_object_store, table_at
from logbus.pipeline.lake.load_state import LoadState
from logbus.pipeline.payloads.record_metadata import metadata_of, metadata_struct

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from logbus.pipeline.lake.target import LoadTarget

_WANTED = ("topic", "partition", "offset", "timestamp")
_ATTEMPTS = 5
_MOST_NOTES = 10

Place = tuple[str, int]
"""A topic and the start of a window, in milliseconds since 1970."""


@frozen
class TableCount:
    """
    The counts of a table.

    :ivar topics: those with loaded offsets.
    :ivar windows: records by topic and window, with those in quarantine.
    :ivar doubled: rows whose offset another row has, by topic and window.
    :ivar notes: sentences about offsets that it is known to lack.
    """

    topics: tuple[str, ...] = ()
    windows: Mapping[Place, int] = field(factory=dict)
    doubled: Mapping[Place, int] = field(factory=dict)
    notes: tuple[str, ...] = ()


@frozen
class TablePlace:
    """
    The location of a table.

    :ivar name: in the report.
    :ivar url: its directory or URL; of Iceberg, its name.
    :ivar table_format: "": as the table has it.
    :ivar catalog: of a table of Iceberg; "": the default one.
    :ivar store_options: of an object store; a table that is on none does not take them.
    """

    name: str
    url: str
    table_format: str = ""
    catalog: str = ""
    store_options: Mapping[str, str] = field(factory=dict, repr=False)

    @property
    def _options(self) -> Mapping[str, str]:
        return self.store_options if is_on_object_store(self.url) else {}

    def check(self) -> None:
        """
        Check what can be checked without Spark.

        :raise OptionError: there is no such catalog, or an option is none of the store's.
        """
        if not self.name or not self.url:
            raise OptionError(f"{self.name!r}={self.url!r} is no table: it takes a name, and a directory or URL")
        check_format(self.url, self.table_format, self._options, self.catalog)

    def check_exists(self) -> None:
        """
        Check before Spark is started that the table is there, if that can be known.

        :raise LakeError: it is not, or is damaged.
        """
        check_exists(self.url, self.table_format, self._options, self.catalog)

    def open(self, spark: SparkSession) -> LoadTarget:
        """
        The table.

        :raise OptionError: there is none.
        :raise LakeError: it is damaged.
        """
        table = table_at(spark, self.url, self.table_format, self._options, self.catalog)
        if not table.number:
            raise OptionError(f"there is no table at {table.url}")
        return table


def count_table(spark: SparkSession, table: LoadTarget, lengths: Mapping[str, int], length: int) -> TableCount:
    """
    Count the records that a table has now, by topic and window of the record's time.

    :param lengths: of the windows in milliseconds, by topic;  ``length``: for all other topics.
    :raise OptionError: it is not a table that topics are loaded into.
    :raise LakeError: it is damaged.
    """
    from pyspark.errors import PySparkException

    table.refresh()
    for attempt in range(_ATTEMPTS):
        before = table.number
        try:
            return _counted(spark, table, lengths, length)
        except PySparkException:
            # A compaction may have deleted files before they were read.
            table.refresh()
            if attempt == _ATTEMPTS - 1 or table.number == before:
                raise
    raise AssertionError("the last attempt returns or raises")


def _counted(spark: SparkSession, table: LoadTarget, lengths: Mapping[str, int], length: int) -> TableCount:
    from pyspark.sql import functions as f

    windows: dict[Place, int] = {}
    doubled: dict[Place, int] = {}
    rows = _rows(spark, table)
    if rows is None:
        return TableCount(_topics(table.state), notes=notes_of(table.state))
    # Records without a time count as of 1970, as producers and consumers count them.
    at_ms = f.greatest(f.unix_millis("timestamp"), f.lit(0))
    window: Column = f.lit(length)
    for each in sorted(set(lengths.values()) - {length}):
        here = f.col("topic").isin([topic for topic, other in lengths.items() if other == each])
        window = f.when(here, f.lit(each)).otherwise(window)
    places = rows.groupBy("topic", (at_ms - at_ms % window).alias("start"), "partition", "offset")
    counts = (
        places.agg((f.count(f.lit(1)) - 1).alias("more"))
        .groupBy("topic", "start")
        .agg(f.count(f.lit(1)).alias("records"), f.sum("more").alias("more"))
    )
    for row in counts.collect():
        windows[row["topic"], row["start"]] = row["records"]
        if row["more"]:
            doubled[row["topic"], row["start"]] = row["more"]
    return TableCount(_topics(table.state), windows, doubled, notes_of(table.state))


def _rows(spark: SparkSession, table: LoadTarget) -> DataFrame | None:
    found = []
    if table.has_rows:
        found.append(table.read())
    if table.has_quarantine:
        found.append(table.read_quarantine())
    found = [_flat(rows) for rows in found]
    for rows in found:
        if missing := [name for name in _WANTED if name not in rows.columns]:
            raise OptionError(
                f"{table.url} has no column {missing[0]!r}: tables that topics are loaded into can be audited, "
                "and no others"
            )
    if not found:
        return None
    some = [rows.select(*_WANTED) for rows in found]
    return some[0] if len(some) == 1 else some[0].unionByName(some[1])


def _flat(rows: DataFrame) -> DataFrame:
    """Rows whose metadata may be in a struct, with the metadata as columns."""
    struct = metadata_struct((), metadata_of(json.loads(rows.schema.json())))
    return rows.select(f"{struct}.*") if struct else rows


def _topics(state: LoadState) -> tuple[str, ...]:
    return tuple(sorted(state.offsets))


def notes_of(state: LoadState) -> tuple[str, ...]:
    """The offsets of a table's topics that it lacks by its commits: not loaded, or lost."""
    notes = []
    for topic, held in sorted(state.offsets.items()):
        lost = state.lost.get(topic)
        for partition, offsets in sorted(held.partitions.items()):
            gone = lost.partitions.get(partition) if lost is not None else None
            if offsets.start:
                notes.append(f"{topic}-{partition}: it begins at offset {offsets.start}")
            for (_, end), (start, _) in zip(offsets.ranges, offsets.ranges[1:], strict=False):
                notes.append(f"{topic}-{partition}: offsets {end} to {start - 1} are not loaded")
            if gone:
                notes.append(f"{topic}-{partition}: {len(gone)} offsets were gone before they could be loaded")
    if len(notes) > _MOST_NOTES:
        return (*notes[:_MOST_NOTES], f"and {len(notes) - _MOST_NOTES} more of this kind")
    return tuple(notes)
