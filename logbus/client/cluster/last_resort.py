"""
Where warnings go in a program that shows no log: standard error (Python: ``logging.lastResort``).

Twisted keeps what is logged until a program begins its logging. One that does not, since it is small or new, would not
see why it waits.
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.logger import globalLogBeginner


def has_begun_logging() -> bool:
    """Whether the process has told Twisted where its log goes."""
    return getattr(globalLogBeginner, "_temporaryObserver", None) is None


def is_log_hidden(reactor: Any) -> bool:
    """
    Whether this process shows its log nowhere.

    On other reactors than the process's own, such as those of tests and simulations, whoever made them has the log.
    """
    return not has_begun_logging() and sys.modules.get("twisted.internet.reactor") is reactor


def print_unseen(reactor: Any, line: str) -> None:
    """Write a line on standard error, if the log is hidden."""
    if is_log_hidden(reactor) and sys.stderr is not None:
        print(f"logbus.client: {line}", file=sys.stderr, flush=True)
