"""The pipeline's exceptions. Each can be pickled, since Spark sends errors between processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logbus.errors import LogbusError

__all__ = ["ClaimLost", "LakeError", "OptionError", "PipelineError"]


class PipelineError(LogbusError):
    """Something in the pipeline failed; the message names it and what would be right."""


class OptionError(PipelineError, ValueError):
    """An option is wrong; the message names it and what it can be."""


class LakeError(PipelineError):
    """A table of the lake is damaged, or does not fit the rows to be written."""


class ClaimLost(LakeError):
    """Another job has claimed the table; this one has to stop."""


class Disconnected(PipelineError):
    """The connection to a broker ended before the response; the request may or may not have been served."""


class RequestTimedOut(Disconnected):
    """A broker did not answer in time. The connection is closed, since a late response would be taken for another."""


class Unreachable(PipelineError):
    """No broker could be connected to; the message names each address and its error."""


class AuthenticationFailed(PipelineError):
    """The broker rejected our credentials, or its certificate is not trusted. It is not retried."""


class ColumnError(PipelineError, ValueError):
    """Rows cannot be written: a column is missing or has a wrong type or value; the message names it."""


class DeliveryFailed(PipelineError):
    """Records could not be written to a partition; the message names it and the cause."""


class ProducerFenced(PipelineError):
    """A newer attempt at the same rows has fenced this producer, which can write nothing more (PRODUCER_FENCED)."""


class TransactionLost(PipelineError):
    """The brokers have aborted the transaction, usually because it took longer than its timeout."""


class NotRepeatable(PipelineError):
    """A partly committed batch was repeated with other rows or another number of tasks; nothing was written."""


class RunFailed(PipelineError):
    """
    The output of a run is incomplete, or may be wrong.

    :ivar report: the report of the run, as JSON.
    """

    def __init__(self, problem: str, report: Mapping[str, Any]) -> None:
        super().__init__(problem, report)
        self.problem, self.report = problem, report

    def __str__(self) -> str:
        return self.problem


class DataLossFound(PipelineError):
    """Offsets to be read are gone, as found when the batch was planned, before any task started."""


class OffsetLost(PipelineError):
    """
    Offsets that a task was to read are gone, or the topic was deleted or recreated.

    :ivar partition: topic and number.
    :ivar wanted: the offset that is missing.
    :ivar log_start: the first offset that is kept, −1 where the partition is gone.
    :ivar log_end: the offset that the next record gets, −1 where the partition is gone.
    """

    def __init__(self, partition: tuple[str, int], wanted: int, log_start: int, log_end: int, why: str) -> None:
        super().__init__(partition, wanted, log_start, log_end, why)
        self.partition = partition
        self.wanted, self.log_start, self.log_end = wanted, log_start, log_end
        self.why = why

    def __str__(self) -> str:
        kept = ""
        if self.log_end >= 0:
            some = f"offsets {self.log_start} to {self.log_end - 1}"
            kept = f"; it keeps {some if self.log_end > self.log_start else 'none'}"
        return f"{self.partition[0]}-{self.partition[1]}: offset {self.wanted} cannot be read: {self.why}{kept}"
