"""
Keeps Spark's Python processes from printing tracebacks about connections that Spark's Java has closed.

Java closes a connection, or its listening socket, when it needs a process no more: a query was stopped, or a ``limit``
has its rows. That it does so while the process is still starting, with a Unix domain socket as with TCP, ends the
process with ``CANNOT_OPEN_SOCKET``; that it does so later, with ``BrokenPipeError``. If Java had to give up, it says so
itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

_HANG_UPS = (BrokenPipeError, ConnectionResetError)
_NOBODY_LISTENS = "CANNOT_OPEN_SOCKET"
_PLANNERS = "pyspark.sql."
"""The programs begin so that plan batches and streams: those that Java starts, and that connect to it."""


def is_hang_up(error: BaseException | None) -> bool:
    """Whether an error says only that Java has gone; with ``LOGBUS_DEBUG`` in the environment none does."""
    if os.environ.get("LOGBUS_DEBUG"):
        return False
    if isinstance(error, _HANG_UPS):
        return True
    condition = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    return condition is not None and condition() == _NOBODY_LISTENS


def expect_hang_up(command: Sequence[str] = ()) -> None:
    """
    In a process that plans, have it end without a traceback when Java has gone; called wherever one begins.

    :param command: of this process; empty: as Python was called.
    """
    if not any(each.startswith(_PLANNERS) for each in command or sys.orig_argv):
        return
    report = sys.excepthook

    def report_others(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not is_hang_up(error):
            report(kind, error, trace)

    sys.excepthook = report_others


def expect_hang_ups_of_tasks(server: Any) -> None:
    """
    Have the server that takes accumulators' values from Java, in the driver, print nothing when Java hangs up.

    Java does so if a query is stopped just then, and connects again for the next values.

    :param server: a ``socketserver.BaseServer``; None: there is none.
    """
    if server is None:
        return
    report = server.handle_error

    def report_others(request: Any, address: Any) -> None:
        error = sys.exc_info()[1]
        if not (isinstance(error, EOFError) or is_hang_up(error)):
            report(request, address)

    server.handle_error = report_others
