"""Waits for what has no event."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from logbus.errors import LogbusError

T = TypeVar("T")

POLL_SECONDS = 0.02
"""Between two looks."""


class WaitTimedOut(LogbusError):
    """A condition did not become true in time."""


def wait_until(condition: Callable[[], T | None], what: str | Callable[[], str], timeout: float = 120.0) -> T:
    """
    The result of ``condition`` once it is true, which is looked at every 20 ms: for conditions without an event.

    :param what: what is waited for, for the message; a function is called when the time is over, to say how things are.
    :param timeout: seconds.
    :raise WaitTimedOut: it did not become true.
    """
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        if time.monotonic() > deadline:
            said = what if isinstance(what, str) else what()
            raise WaitTimedOut(f"{said} did not come about within {timeout:g} s")
        time.sleep(POLL_SECONDS)
    return found
