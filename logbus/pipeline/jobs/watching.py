"""What a job says while it runs, and how it is asked to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable

from attrs import define, field


def _nowhere(line: str) -> None:
    """Say nothing."""


@define(eq=False)
class Watch:
    """
    Between a job and whoever runs it.

    :param tell: is given a line now and then: what was done, for people.
    """

    tell: Callable[[str], None] = _nowhere
    _stopping: threading.Event = field(factory=threading.Event, init=False)

    @property
    def is_stopping(self) -> bool:
        """Whether the job shall end what it is at, and begin nothing more."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Ask the job to stop; from a signal's handler or another thread, too."""
        self._stopping.set()

    def wait(self, seconds: float) -> bool:
        """Wait for so long, or until the job is asked to stop; whether it is."""
        return self._stopping.wait(seconds)
