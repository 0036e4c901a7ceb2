"""
Reads the state of a query in its checkpoint: the events of open windows, and those that wait to be joined.

Spark's data source ``statestore`` reads it as of the last finished batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from logbus.pipeline.error_text import short_message
from logbus.pipeline.errors import PipelineError
from logbus.pipeline.jobs.record_counts import last_commit
from logbus.pipeline.lake.file_system import FileSystem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@frozen
class OpenState:
    """
    The state that a query keeps.

    :ivar events: in open windows; None: not known.
    :ivar latest: the time of the latest event of each stream that is kept, in microseconds since 1970; None: none is.
    """

    events: int | None
    latest: list[int | None]


def open_windows(spark: SparkSession, checkpoint: FileSystem) -> OpenState:
    """
    The open windows of a query whose first aggregates are the number of events, and the latest time in microseconds.

    :raise PipelineError: the state cannot be read.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructField, StructType

    def sums(state: DataFrame) -> DataFrame:
        # Several aggregates may have the same name there, and Spark takes the last one for each of them: a cast
        # renames fields by position.
        values = state.schema["value"].dataType
        assert isinstance(values, StructType)
        renamed = StructType([StructField(f"_{number}", each.dataType) for number, each in enumerate(values)])
        found = state.select(f.col("value").cast(renamed).alias("value"))
        return found.agg(f.sum("value._0").alias("events"), f.max("value._1").alias("latest"))

    if last_commit(checkpoint) < 0:
        return OpenState(0, [None])
    row = _state(spark, checkpoint, sums)
    return OpenState(row["events"] or 0, [row["latest"]])


def open_sessions(spark: SparkSession, checkpoint: FileSystem, gap: int) -> OpenState:
    """
    The open sessions of a query, which end ``gap`` microseconds after their last event.

    :raise PipelineError: the state cannot be read.
    """
    from pyspark.sql import functions as f

    if last_commit(checkpoint) < 0:
        return OpenState(None, [None])
    ends = f.unix_micros(f.max("value.session_window.end"))
    return OpenState(None, [_state(spark, checkpoint, lambda state: state.agg((ends - gap).alias("latest")))["latest"]])


def waiting_events(spark: SparkSession, checkpoint: FileSystem, operator: int, time: str) -> OpenState:
    """
    The events of two streams that wait to be joined.

    :param operator: Spark's number of the join among the stateful operators of the query.
    :param time: the column with their time.
    :raise PipelineError: the state cannot be read.
    """
    from pyspark.sql import functions as f

    if last_commit(checkpoint) < 0:
        return OpenState(None, [None, None])
    latest = f.unix_micros(f.max(f"value.{time}")).alias("latest")
    found = [
        _state(spark, checkpoint, lambda state: state.agg(latest), operatorId=str(operator), joinSide=side)["latest"]
        for side in ("left", "right")
    ]
    return OpenState(None, found)


def _state(spark: SparkSession, checkpoint: FileSystem, sums: Any, **options: str) -> Any:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        row = sums(spark.read.format("statestore").options(**options).load(checkpoint.url)).first()
    except (PySparkException, Py4JError) as e:
        raise PipelineError(f"{checkpoint.url}: the query's state cannot be read: {short_message(str(e))}") from e
    assert row is not None, "an aggregate without groups has a row"
    return row
