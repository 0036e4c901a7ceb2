"""The last lines of the log of what runs in one thread of this process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from datetime import datetime

from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

KEPT_LINES = 1000
TRACEBACK_LINES = 20
"""The last lines of each."""
LEGACY = {"log_legacy": "twisted"}
"""What Twisted logs by its older interface."""


@implementer(ILogObserver)
class ThreadLog:
    """
    Collects the events of Twisted's log that arise in a thread, from :meth:`open` to :meth:`close`.

    Nothing is formatted before somebody looks.
    """

    def __init__(self) -> None:
        self._events: deque[LogEvent] = deque(maxlen=KEPT_LINES)
        self._thread = 0
        self.count = 0

    def open(self, thread: int) -> None:
        """Begin to collect the events of the thread with this identifier."""
        self._thread = thread
        globalLogPublisher.addObserver(self)

    def close(self) -> None:
        """Collect no more; what there is stays."""
        globalLogPublisher.removeObserver(self)

    def lines(self, since: int = 0) -> list[str]:
        """
        The lines, oldest first.

        :param since: leave out those that were there when :attr:`count` was this.
        """
        # The thread may go on to log; a copy in one step is whole.
        events = list(self._events)
        fresh = max(0, self.count - since)
        return [line for event in (events[-fresh:] if fresh else []) for line in _lines(event)]

    def __call__(self, event: LogEvent) -> None:
        if threading.get_ident() == self._thread:
            self._events.append(event)
            self.count += 1


def _lines(event: LogEvent) -> Iterable[str]:
    at = datetime.fromtimestamp(event.get("log_time", 0.0)).strftime("%H:%M:%S.%f")[:-3]
    level = getattr(event.get("log_level"), "name", "info")
    namespace = event.get("log_namespace") or "-"
    yield f"{at} {level:5} [{LEGACY.get(namespace, namespace)}] {formatEvent(event)}"
    failure = event.get("log_failure")
    if failure is not None:
        yield from failure.getTraceback().rstrip().splitlines()[-TRACEBACK_LINES:]
