"""Progress messages and the stop request between a running job and its caller."""

from __future__ import annotations

import threading
from collections.abc import Callable

from attrs import define, field

from logbus.pipeline.jobs.progress_bar import ProgressBar


def _nowhere(line: str) -> None:
    """Drop a message."""


@define(eq=False)
class JobControl:
    """
    Takes a job's progress messages, and asks it to stop.

    :param tell: is called with a line of text about what was done.
    :param bar: on a terminal, in place of a line for each batch.
    """

    tell: Callable[[str], None] = _nowhere
    bar: ProgressBar | None = None
    _stopping: threading.Event = field(factory=threading.Event, init=False)

    @property
    def is_stopping(self) -> bool:
        """Whether the job is to finish its current step, and end."""
        return self._stopping.is_set()

    def begin(self, left: int) -> None:
        """So many offsets are to be read."""
        if self.bar is not None:
            self.bar.begin(left)

    def tell_batch(self, line: str, done: int, left: int) -> None:
        """A batch is done: its offsets, and those that are left."""
        if self.bar is None:
            self.tell(line)
        else:
            self.bar.batch(done, left)

    def stop(self) -> None:
        """Ask the job to stop; may be called from a signal handler or another thread."""
        self._stopping.set()

    def wait(self, seconds: float) -> bool:
        """Wait for some seconds, or until the job is asked to stop; returns whether it is."""
        return self._stopping.wait(seconds)
