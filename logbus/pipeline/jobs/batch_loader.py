"""Writes one batch of a load: reads ranges of offsets and stages them as Parquet files, uncommitted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from logbus.model import TopicPartition
from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake import schema_evolution
from logbus.pipeline.lake.layout import DATE, HOUR, TIME_OF, Layout, check_directory, layout_for
from logbus.pipeline.lake.offset_set import Range
from logbus.pipeline.lake.parquet import gathered
from logbus.pipeline.payloads.payload import Payload, raw_columns
from logbus.pipeline.payloads.record_metadata import check_taken, metadata_of, metadata_struct
from logbus.pipeline.source.offsets_json import offsets_to_json
from logbus.pipeline.source.schema import source_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from logbus.pipeline.lake.target import LoadTarget

DEFAULT_LAYOUT = Layout("none")
"""Of new tables: any other makes many small files of a small load."""

_ORDER = ("topic", "partition", "offset")
_FIRST_TIME, _LAST_TIME = "0001-01-01 00:00:00Z", "9999-12-31 23:59:59.999999Z"
"""The bounds within which all readers recognize a date; times beyond are set to the nearest bound."""

_ATTEMPTS = 3

_RAW = "timestampType"
"""A column that only raw rows have: no event may have a field of this name."""


@frozen
class LoadedBatch:
    """
    The result of a batch.

    :ivar records: rows;  ``quarantined``: those whose value could not be read;  ``late``: those that were late.
    :ivar schema: of the table with these rows.
    """

    records: int
    quarantined: int
    late: int
    schema: Any


@define
class BatchLoader:
    """
    Writes the batches of a load.

    :param spark: a session with the settings of :func:`.writing.settings`.
    :param source: options of ``format("logbus")``.
    :param late_after: seconds: an event is late if it is older than its record by more.
    :param partition_by: the directories; None: as those of the table.
    :ivar layout: the directories.
    """

    spark: SparkSession
    table: LoadTarget
    source: Mapping[str, str]
    headers: bool
    payload: Payload
    late_after: float
    partition_by: Layout | None
    layout: Layout = field(default=DEFAULT_LAYOUT, init=False)

    def check(self) -> Any:
        """
        Check that rows can be written to the table, and choose the directories. It is called first.

        :returns: the schema that the table has with these rows, as Spark's JSON.
        :raise OptionError: the payload's schema is invalid.
        :raise LakeError: it does not fit the table's, or the directories do not.
        """
        self.layout = layout_for(self.table.url, self.table.directories, self.partition_by, DEFAULT_LAYOUT)
        self.payload = self._like_table(self.payload)
        self.payload.check()
        parsed = self.payload.parsed(self.spark.createDataFrame([], source_schema(self.headers)))
        events = parsed.select(*self.payload.columns(parsed))
        check_taken(events.columns, self.layout.of_times, "a directory")
        check_directory(self.layout, json.loads(events.schema.json())["fields"])
        good = self._good(parsed)
        self._check_kind(good.columns)
        return self._schema(good)

    def write(self, ranges: Mapping[TopicPartition, Range]) -> LoadedBatch:
        """
        Stage a batch.

        :raise LakeError: the number of rows in the files is wrong; or the rows' schema does not fit.
        """
        for _ in range(_ATTEMPTS):
            self.table.discard()
            parsed = self.payload.parsed(self._rows(ranges))
            written = self._write_good(parsed)
            if not written.quarantined:
                return written
            odd = parsed.where(f"{self.payload.reason} is not null")
            directories = self.layout.of_times
            rows = _dated(odd, "timestamp", raw_columns(odd), directories, "timestamp")
            if (
                self.table.stage(gathered(rows, directories, _ORDER), directories, quarantine=True)
                == written.quarantined
            ):
                return written
            # The batch is read twice; a schema may have been registered between the first time and the second.
        raise LakeError(
            f"{self.table.url}: which records can be read changed while they were written, {_ATTEMPTS} times; "
            "nothing was committed"
        )

    def _write_good(self, parsed: DataFrame) -> LoadedBatch:
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        seen = Observation()
        reason = f.col(self.payload.reason)
        is_late = f.col(self.payload.time) < f.col("timestamp") - f.make_dt_interval(secs=f.lit(self.late_after))
        good = self._good(
            parsed.observe(
                seen,
                f.count(f.lit(1)).alias("records"),
                f.count(reason).alias("odd"),
                f.count(f.when(reason.isNull() & is_late, 1)).alias("late"),
            )
        )
        schema = self._schema(good)
        directories = self.layout.directories
        found = self.table.stage(gathered(good, directories, self._order(good)), directories)
        counts = seen.get
        expected = counts["records"] - counts["odd"]
        if found != expected:
            raise LakeError(
                f"{self.table.url}: {expected} rows were written, and the new files have {found}; nothing was "
                "committed. Is it a place that Spark's driver and all of its workers share?"
            )
        return LoadedBatch(counts["records"], counts["odd"], counts["late"], schema)

    def _good(self, parsed: DataFrame) -> DataFrame:
        good = parsed.where(f"{self.payload.reason} is null")
        columns = self.payload.columns(good)
        time_of = time_column(self.payload, json.loads(good.select(*columns).schema.json()))
        return _dated(good, self.payload.time, columns, self.layout.of_times, time_of)

    def _like_table(self, payload: Payload) -> Payload:
        """The payload with the record's own columns as the table has them."""
        there = metadata_of(self.table.state.schema)
        if not there:
            return payload
        if payload.own_columns and payload.metadata not in ("", there):
            raise LakeError(
                f"{self.table.url}: it has the records' metadata as {there}, and not as {payload.metadata}; leave out "
                "--metadata-as, or load into a table of its own"
            )
        return payload.with_metadata(there)

    def _order(self, rows: DataFrame) -> list[str]:
        struct = metadata_struct((), metadata_of(json.loads(rows.schema.json())))
        return [f"{struct}.{name}" if struct else name for name in _ORDER]

    def _schema(self, rows: DataFrame) -> Any:
        return schema_evolution.merged_schema(self.table.url, self.table.state.schema, json.loads(rows.schema.json()))

    def _check_kind(self, names: list[str]) -> None:
        """Check raw against parsed rows: without this check, a wrong payload option would just add columns."""
        url, schema = self.table.url, self.table.state.schema
        if schema is None:
            return
        was_raw, is_raw = (_RAW in each for each in ([field["name"] for field in schema["fields"]], names))
        if was_raw != is_raw:
            kinds = ["columns of their own (payload json or avro)", "one column of bytes (payload raw)"]
            raise LakeError(
                f"{url}: its rows have the values in {kinds[was_raw]}, and the new ones would have them in "
                f"{kinds[is_raw]}; load these into a table of their own, or with the payload that it was loaded with"
            )

    def _rows(self, ranges: Mapping[TopicPartition, Range]) -> DataFrame:
        """Read exactly these ranges."""
        replaced = ("subscribe", "subscribepattern", "assign", "failondataloss")
        given = {
            name: value
            for name, value in self.source.items()
            if name.lower() not in replaced and not name.lower().startswith(("starting", "ending"))
        }
        assigned: dict[str, list[int]] = {}
        for topic, partition in ranges:
            assigned.setdefault(topic, []).append(partition)
        return (
            self.spark.read.format("logbus")
            .options(**given)
            .option("assign", json.dumps(assigned))
            .option(
                "startingOffsets", json.dumps(offsets_to_json({each: start for each, (start, _) in ranges.items()}))
            )
            .option("endingOffsets", json.dumps(offsets_to_json({each: end for each, (_, end) in ranges.items()})))
            .option("failOnDataLoss", "true")  # Else the commit would name offsets that were not loaded.
            .load()
        )


def time_column(payload: Payload, schema: Mapping[str, Any]) -> str:
    """
    The column of the rows that has the event's time, as a path.

    :param schema: of the rows, as Spark's JSON.
    :returns: "" if its values are no times, but dates.
    """
    event_time, into = getattr(payload, "event_time", ""), getattr(payload, "into", "")
    path = ".".join(each for each in (into, event_time) if each) if event_time else "timestamp"
    if not event_time and (struct := metadata_struct((), metadata_of(schema))):
        path = f"{struct}.timestamp"
    kind: Any = schema
    for name in path.split("."):
        kind = next(each["type"] for each in kind["fields"] if each["name"] == name)
    return path if kind in ("timestamp", "timestamp_ntz") else ""


def _dated(
    rows: DataFrame, time_column: str, columns: list[Any], directories: Sequence[str], time_of: str
) -> DataFrame:
    """
    Add the columns that are directories of the time.

    :param time_of: the column of the table with the time, for formats that know hours of it; "": there is none.
    """
    from pyspark.sql import functions as f

    first, last = (f.lit(each).cast("timestamp") for each in (_FIRST_TIME, _LAST_TIME))
    at = f.greatest(first, f.least(f.col(time_column), last))
    formats = {DATE: "yyyy-MM-dd", HOUR: "HH"}
    metadata = {TIME_OF: time_of} if time_of else {}
    return rows.select(
        *columns, *(f.date_format(at, formats[each]).alias(each, metadata=metadata) for each in directories)
    )
