"""
The outputs of streaming queries, topics and tables; each batch is written once.

Spark may repeat a batch after a failure. Both outputs save the number of the last batch together with its rows, in one
transaction or one commit, and skip batches that they have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from attrs import define, field, frozen

from logbus.pipeline.errors import LakeError, OptionError
from logbus.pipeline.lake import schema_evolution
from logbus.pipeline.lake.formats import ICEBERG, check_format, table_at, table_before_spark
from logbus.pipeline.lake.load_state import LoadChange
from logbus.pipeline.lake.local_directory import check_writable
from logbus.pipeline.lake.parquet import parquet_settings
from logbus.pipeline.sink.options import EXACTLY_ONCE
from logbus.pipeline.sink.options import read_sink_options as read_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from logbus.pipeline.lake.target import LoadTarget

_JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timeZone": "UTC"}


class Output(Protocol):
    """An output of a streaming query."""

    @property
    def name(self) -> str:
        """What it is, for messages."""

    @property
    def keeps_batch(self) -> bool:
        """Whether it knows its :meth:`last_batch` as long as it has the rows."""

    def check(self) -> None:
        """
        Check what can be checked before Spark is started.

        :raise PipelineError: the output does not exist.
        """

    def check_columns(self, columns: Sequence[str]) -> None:
        """
        Check that the rows have the columns that the output needs.

        :param columns: of the rows.
        :raise OptionError: one is missing.
        """

    def open(self, spark: SparkSession) -> None:
        """
        Open the output; called once, before the first batch.

        :raise PipelineError: the output does not exist.
        """

    def last_batch(self, query: str) -> int:
        """
        The number of the last batch of a query that it has, once it is open; −1: there is none.

        :param query: Spark's id of the query.
        """

    def write(self, rows: DataFrame, query: str, number: int) -> None:
        """
        Write a batch, unless it was written already.

        :param rows: at least one; they are cached, and can be read several times.
        :param query: Spark's id of the query, which is the same after restarts.
        :param number: of the batch; the same one may be repeated.
        """


@frozen
class ToTopic:
    """
    Writes rows as JSON objects to a topic, in transactions.

    :ivar options: of ``format("logbus")``: ``topic``, connection and producer settings.
    :ivar key: columns of the records' keys, which are JSON objects; all rows of a key go to one partition.
    :ivar tasks: the number of writing tasks; it must not change while the query exists. Each has a transaction: with
        one task a batch becomes visible as a whole, and a repeated batch may have other rows.
    :raise OptionError: an option is wrong.
    """

    options: Mapping[str, str]
    key: Sequence[str] = ()
    tasks: int = 1

    def __attrs_post_init__(self) -> None:
        given = {"deliveryGuarantee": EXACTLY_ONCE, **self.options}
        read_options(given, streaming=False)
        if not any(name.lower() == "topic" for name in given):
            raise OptionError("an output to a topic needs the option 'topic'")
        if self.tasks < 1:
            raise OptionError(f"an output to a topic is written by at least one task, not {self.tasks}")
        object.__setattr__(self, "options", given)

    @property
    def name(self) -> str:
        """See :class:`Output`."""
        return f"the topic {read_options(self.options, streaming=False).topic}"

    @property
    def keeps_batch(self) -> bool:
        """See :class:`Output`: offsets of groups expire, and so do records."""
        return False

    def check(self) -> None:
        """See :class:`Output`."""
        from logbus.pipeline.sink.writers import check_topic

        check_topic(read_options(self.options, streaming=False))

    def check_columns(self, columns: Sequence[str]) -> None:
        """See :class:`Output`."""
        _check_columns("the key", self.key, columns)

    def open(self, spark: SparkSession) -> None:
        """See :class:`Output`."""
        self.check()

    def last_batch(self, query: str) -> int:
        """See :class:`Output`."""
        from logbus.pipeline.sink.writers import last_batch

        return last_batch(read_options(self.options, streaming=False), query)

    def write(self, rows: DataFrame, query: str, number: int) -> None:
        """See :class:`Output`."""
        from pyspark.sql import functions as f

        columns = [f.to_json(f.struct(*map(column, rows.columns)), _JSON).alias("value")]
        if self.key:
            columns.append(f.to_json(f.struct(*map(column, self.key)), _JSON).alias("key"))
        spread = rows.select(*columns).repartition(self.tasks, *(["key"] if self.key else ["value"]))
        (
            spread.sortWithinPartitions(*spread.columns)
            .write.format("logbus")
            .options(**self.options)
            .option("txnAppId", query)
            .option("txnVersion", str(number))
            .mode("append")
            .save()
        )


@define(eq=False)
class ToTable:
    """
    Writes rows to a table.

    :param url: a directory or URL.
    :param partitioned_by: columns whose values are directories; none: as the table has them.
    :param format: such as ``delta`` (:data:`.FORMATS`); "": as the table has it, and ``parquet`` for a new one.
    :param store_options: of an object store; others come from the environment.
    :param catalog: in which a table of Iceberg is, whose name is the ``url``.
    :raise OptionError: an option is wrong.
    """

    url: str
    partitioned_by: Sequence[str] = ()
    format: str = ""
    store_options: Mapping[str, str] = field(factory=dict, repr=False)
    catalog: str = ""
    _table: LoadTarget | None = field(default=None, init=False)
    _columns: Sequence[str] = field(default=(), init=False)

    def __attrs_post_init__(self) -> None:
        check_format(self.url, self.format, self.store_options, self.catalog)

    @property
    def name(self) -> str:
        """See :class:`Output`."""
        return f"the table {self.url}"

    @property
    def keeps_batch(self) -> bool:
        """See :class:`Output`."""
        return True

    def check(self) -> None:
        """
        See :class:`Output`.

        :raise LakeError: it is damaged, no table, or has other directories, if that can be known without Spark.
        """
        if not (self.catalog or self.format == ICEBERG):
            check_writable(self.url)
        table = table_before_spark(self.url, self.format, self.store_options, self.catalog)
        if table is not None:
            self._directories(table)

    def check_columns(self, columns: Sequence[str]) -> None:
        """See :class:`Output`."""
        _check_columns("a directory (--partition-by)", self.partitioned_by, columns)
        self._columns = columns

    def _directories(self, table: LoadTarget) -> Sequence[str]:
        """
        The columns to divide files by, of which a table has the same for all.

        :raise LakeError: others are wanted than those of the table, or the rows lack one.
        """
        there = table.directories
        if there is None:
            return self.partitioned_by
        said = f"{table.url}: its files are divided by {', '.join(there) or 'no column'}"
        if self.partitioned_by and tuple(self.partitioned_by) != there:
            raise LakeError(
                f"{said}, and --partition-by is {', '.join(self.partitioned_by)}; leave it out, or write to a table of "
                "its own"
            )
        if lacking := [name for name in there if name not in self._columns]:
            raise LakeError(
                f"{said}, and the rows have no column {lacking[0]}; there are {', '.join(self._columns)}; write to a "
                "table of its own"
            )
        return there

    def open(self, spark: SparkSession) -> None:
        """
        Claim the table. See :class:`Output`.

        :raise LakeError: it is damaged, or has other directories.
        """
        self._table = table_at(spark, self.url, self.format, self.store_options, self.catalog)
        self._directories(self._table)
        self._table.claim()

    def last_batch(self, query: str) -> int:
        """See :class:`Output`."""
        assert self._table is not None, "open() comes first"
        return self._table.state.batches.get(query, -1)

    def write(self, rows: DataFrame, query: str, number: int) -> None:
        """
        See :class:`Output`.

        :raise LakeError: the rows' schema does not fit the table's, or the workers cannot write to it.
        """
        if number <= self.last_batch(query):
            return
        table = self._table
        assert table is not None, "open() comes first"
        table.discard()  # of an attempt that failed
        schema: Any = schema_evolution.merged_schema(table.url, table.state.schema, json.loads(rows.schema.json()))
        directories = self._directories(table)
        sorted_rows = rows.sortWithinPartitions(*map(column, directories)) if directories else rows
        with parquet_settings(rows.sparkSession):
            found = table.stage(sorted_rows, directories)
        records = rows.count()
        if found != records:
            raise LakeError(
                f"{table.url}: {records} rows were written, and the new files have {found}; nothing was "
                "committed. Is it a place that Spark's driver and all of its workers share?"
            )
        table.commit(LoadChange(records=records, schema=schema, batch=(query, number)))


def column(name: str) -> Any:
    """The column with this name, whatever characters are in it."""
    from pyspark.sql import functions as f

    quoted = name.replace("`", "``")
    return f.col(f"`{quoted}`")


def _check_columns(of: str, wanted: Sequence[str], columns: Sequence[str]) -> None:
    if unknown := [name for name in wanted if name not in columns]:
        raise OptionError(f"{of} is of the column {unknown[0]!r}, which is not there; there are {', '.join(columns)}")
