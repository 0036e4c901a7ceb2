"""
Counts the records of a table by topic and time window.

A row whose offset another row has is counted separately: else a duplicate would make up for a lost record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import field, frozen

from logbus.pipeline.errors import OptionError
from logbus.pipeline.lake.commit_log import TableState
from logbus.pipeline.lake.layout import QUARANTINE
from logbus.pipeline.lake.table import Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

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


def open_table(spark: SparkSession, url: str) -> Table:
    """
    The table at a directory or URL.

    :raise OptionError: there is none.
    :raise LakeError: it is damaged.
    """
    table = Table.at(spark, url)
    if not table.state.number:
        raise OptionError(f"there is no table at {table.files.url}")
    return table


def count_table(spark: SparkSession, table: Table, lengths: Mapping[str, int], length: int) -> TableCount:
    """
    Count the records that a table has now, by topic and window of the record's time.

    :param lengths: of the windows in milliseconds, by topic;  ``length``: for all other topics.
    :raise OptionError: it is not a table that topics are loaded into.
    :raise LakeError: it is damaged.
    """
    from pyspark.errors import PySparkException

    table.refresh()
    for attempt in range(_ATTEMPTS):
        before = table.state.number
        try:
            return _counted(spark, table, lengths, length)
        except PySparkException:
            # A compaction may have deleted files before they were read.
            if attempt == _ATTEMPTS - 1 or table.refresh().number == before:
                raise
    raise AssertionError("the last attempt returns or raises")


def _counted(spark: SparkSession, table: Table, lengths: Mapping[str, int], length: int) -> TableCount:
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


def _rows(spark: SparkSession, table: Table) -> DataFrame | None:
    found = []
    if any(not path.startswith(QUARANTINE) for path in table.state.files):
        found.append(table.read(spark))
    if any(path.startswith(QUARANTINE) for path in table.state.files):
        found.append(table.read_quarantine(spark))
    for rows in found:
        if missing := [name for name in _WANTED if name not in rows.columns]:
            raise OptionError(
                f"{table.files.url} has no column {missing[0]!r}: tables that topics are loaded into can be audited, "
                "and no others"
            )
    if not found:
        return None
    some = [rows.select(*_WANTED) for rows in found]
    return some[0] if len(some) == 1 else some[0].unionByName(some[1])


def _topics(state: TableState) -> tuple[str, ...]:
    return tuple(sorted(state.offsets))


def notes_of(state: TableState) -> tuple[str, ...]:
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
