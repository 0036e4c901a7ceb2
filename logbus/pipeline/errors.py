"""What goes wrong in the pipeline. Spark sends errors between processes, so each of them pickles."""

from __future__ import annotations

from logbus.errors import LogbusError

__all__ = ["LakeError", "OptionError", "PipelineError", "TakenOver"]


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
