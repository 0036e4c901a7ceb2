"""What goes wrong in the pipeline. Spark sends errors between processes, so each of them pickles."""

from __future__ import annotations

import re

from logbus.errors import LogbusError

__all__ = ["LakeError", "OptionError", "PipelineError", "TakenOver", "gist"]

_CALLING = "An error occurred while calling "
_CAUSE = "Caused by: "
_OURS = re.compile(r"\blogbus(?:\.\w+)+: (.+)")
_STACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)")
_FAILED = re.compile(r"^\[STREAM_FAILED\] Query .*? terminated with exception: ")


def gist(text: str) -> str:
    """
    What of Spark's long words says what is wrong: what one of our own errors says, if there is one; else the end of
    Python's stack, if there is one; else the first line, and the last of its causes.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_CALLING)]
    ours = [found[1] for line in lines if (found := _OURS.search(line))]
    if ours or not lines:
        return (ours or ["Spark failed without a word"])[-1]
    if ends := _STACK.findall(text):
        return str(ends[-1])
    first = _FAILED.sub("", lines[0].removeprefix(": "))
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    return f"{first}: {causes[-1]}" if causes and causes[-1] not in first else first


class PipelineError(LogbusError):
    """Something in the pipeline failed; the message names it and what would be right."""


class OptionError(PipelineError, ValueError):
    """An option is wrong; the message names it and what it can be."""


class LakeError(PipelineError):
    """A table in the lake is not what it should be."""


class TakenOver(LakeError):
    """Another job writes to the table now; this one has to stop."""


class Disconnected(PipelineError):
    """The connection to a broker ended before the answer came; whether the request was served is not known."""


class RequestTimedOut(Disconnected):
    """No answer in time. Later answers on the same connection cannot be told from it: it is closed."""


class Unreachable(PipelineError):
    """No broker could be connected to; the message names the addresses and what they said."""


class AuthenticationFailed(PipelineError):
    """The brokers do not accept who we say that we are, or we do not accept them. Another attempt would not help."""


class ColumnError(PipelineError, ValueError):
    """Rows cannot be written: a column is missing, or holds what it may not; the message names it."""


class DeliveryFailed(PipelineError):
    """Records did not get into a partition; the message names it, and says why."""


class Fenced(PipelineError):
    """Another attempt at the same rows has begun since: this one can write nothing more, and need not."""


class TransactionLost(PipelineError):
    """The transaction was ended by the brokers, mostly because it took longer than its time-out."""


class NotRepeatable(PipelineError):
    """A batch that was committed in part came again with other rows, or in other tasks: nothing was written."""


class DataLossFound(PipelineError):
    """What was to be read is not there any more, as was seen before any task began."""


class DataLoss(PipelineError):
    """
    Offsets that were to be read are not there any more, or the topic is not the one that it was.

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
