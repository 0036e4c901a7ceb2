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
