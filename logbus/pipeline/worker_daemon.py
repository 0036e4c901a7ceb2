"""
Keeps Spark's daemons of Python workers from printing tracebacks about workers whose connection Spark has closed.

Spark closes it when it needs no more rows, as for a ``limit``, or has not needed a worker for a minute; this ends it.
With TCP it does so before it notices; with a Unix domain socket it notices at once, and the daemon prints a traceback
with ``BrokenPipeError``.

Run as a program this is the daemon of workers of tasks. Spark has no setting for those of workers that plan: they
are made quiet in their workers, as these are forked (:mod:`.spark_home`) or begin to run this package.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any

from logbus.pipeline.hang_ups import is_hang_up
from logbus.pipeline.worker_memory import keep_modules

_DAEMON = "pyspark.daemon"


class Tracebacks:
    """What a daemon takes for the module ``traceback``."""

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)

    def print_exc(self) -> None:
        """Print the current exception, unless the other side has hung up."""
        if not is_hang_up(sys.exc_info()[1]):
            traceback.print_exc()


def begin_work(program: Any = None) -> None:
    """
    Prepare a process of Spark's; called wherever one begins to run this package.

    :param program: the module that the process runs; None: as it is.
    """
    keep_modules()
    quieten(program)


def quieten(program: Any = None) -> None:
    """Have the daemon whose process this is print nothing about hang-ups; see :func:`begin_work`."""
    program = sys.modules["__main__"] if program is None else program
    if getattr(getattr(program, "__spec__", None), "name", "") == _DAEMON:
        program.traceback = Tracebacks()


if __name__ == "__main__":
    from pyspark import daemon

    vars(daemon)["traceback"] = Tracebacks()
    daemon.manager()
