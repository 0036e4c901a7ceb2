"""
The lag of a stream behind its topics, from Spark's progress (Kafka source: metrics ``offsetsBehindLatest``).

Python data sources have no metrics of their own, but the progress of a query has what the source says of its offsets.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import frozen

from logbus.model import TopicPartition
from logbus.pipeline.errors import PipelineError
from logbus.pipeline.source.stream_offset import StreamOffset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryListener


@frozen
class Lag:
    """
    Offsets between the end of a batch and the end of the topics when it was planned.

    :ivar behind: of each partition.
    """

    behind: dict[TopicPartition, int]

    @property
    def total(self) -> int:
        """Of all partitions."""
        return sum(self.behind.values())

    @property
    def most(self) -> int:
        """Of the partition that is behind most."""
        return max(self.behind.values(), default=0)

    def __str__(self) -> str:
        if not self.total:
            return "not behind"
        last = max(self.behind, key=lambda each: self.behind[each])
        return f"{self.total} offsets behind, {self.most} of them in {last}"


def lag_of(source: SourceProgress) -> Lag | None:
    """
    The lag after a batch.

    :param source: of a query's progress, ``query.lastProgress.sources[0]``.
    :returns: None: the source is another one, or Spark is older than 4.2 and has not asked for the latest offsets.
    """
    try:
        done = StreamOffset.read(_decoded(source.endOffset)).offsets
        latest = StreamOffset.read(_decoded(source.latestOffset)).offsets
    except (PipelineError, ValueError, TypeError):
        return None
    return Lag({each: max(0, offset - done.get(each, 0)) for each, offset in latest.items()})


def report_lag(spark: SparkSession, tell: Callable[[str], None] = print) -> StreamingQueryListener:
    """
    Have a line for each batch of the session's streams that read topics: its rows, and how far it is behind.

    :returns: the listener, for ``spark.streams.removeListener``.
    """
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            progress = event.progress
            for source in progress.sources:
                if (lag := lag_of(source)) is not None:
                    name = progress.name or progress.id
                    tell(f"{name}: batch {progress.batchId}: {source.numInputRows} rows, {lag}")

        def onQueryIdle(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            pass

    listener = Listener()
    spark.streams.addListener(listener)
    return listener


def _decoded(offsets: Any) -> Any:
    # As Spark gives it: JSON text, which may be quoted once more.
    found = json.loads(offsets)
    return json.loads(found) if isinstance(found, str) else found
