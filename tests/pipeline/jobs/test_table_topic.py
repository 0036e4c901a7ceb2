"""Tests what is told of a table whose first records are gone, without brokers."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.pipeline.errors import PipelineError
from logbus.pipeline.jobs.table_topic import TableStarts

ONE, TWO = TopicPartition("users", 0), TopicPartition("users", 1)


@define
class _Starts:
    """An offset reader that is told the log start offsets; none: the topic is gone."""

    starts: dict[TopicPartition, int] = field(factory=dict)

    def topics(self) -> Any:
        """See :class:`.OffsetReader`."""
        if not self.starts:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic 'users', which is to be read")
        return self.starts

    def partitions(self, topics: Any) -> list[TopicPartition]:
        """See :class:`.OffsetReader`."""
        return list(topics)

    def earliest(self, partitions: Any, *, allow_deleted: bool) -> dict[TopicPartition, int]:
        """See :class:`.OffsetReader`."""
        return self.starts


class StartTests(SynchronousTestCase):
    """Where the partitions of a table begin."""

    def test_first_records_that_are_gone(self) -> None:
        """Each partition is told once, and again when more is gone."""
        reader: Any = _Starts({TWO: 7, ONE: 0})
        starts, told = TableStarts(reader), list[str]()
        starts.look(told.append)
        starts.look(told.append)
        (line,) = told
        self.assertIn("users-1 begins at offset 7: keys whose last record was before it are not in the table", line)
        reader.starts = {TWO: 7, ONE: 2}
        starts.look(told.append)
        self.assertIn("users-0 begins at offset 2", told[1])
        reader.starts = {TWO: 9, ONE: 2}
        starts.look(told.append)
        self.assertEqual([each.split(":")[0] for each in told[2:]], ["users-1 begins at offset 9"])

    def test_no_topic(self) -> None:
        """It is an error that says so."""
        reader: Any = _Starts()
        error = self.assertRaises(PipelineError, TableStarts(reader).look, self.fail)
        self.assertIn("the table cannot be read: there is no topic 'users'", str(error))
