"""Tests that processor time is neither lost nor counted twice when processes end."""

from __future__ import annotations

import os
from collections.abc import Mapping

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.processor_time import Key, ProcessorTime, Usage, steady

JAVA, DAEMON, WORKER = (1, 0), (2, 0), (3, 0)


def _of(*looks: Mapping[Key, Usage]) -> list[float]:
    given = iter(looks)
    time = ProcessorTime(lambda: next(given))
    return [time.seconds() for _ in looks]


class ProcessorTimeTests(SynchronousTestCase):
    """Of a Java, a daemon and a worker."""

    all_three: Mapping[Key, Usage] = {
        JAVA: Usage(10, 0, None),
        DAEMON: Usage(2, 1, JAVA),
        WORKER: Usage(4, 0, DAEMON),
    }

    def test_waited_for(self) -> None:
        """The parent has the time of a child whose end it has seen."""
        after = {JAVA: Usage(10, 0, None), DAEMON: Usage(2, 6, JAVA)}
        self.assertEqual(_of(self.all_three, after), [17, 18])

    def test_not_waited_for(self) -> None:
        """The time that was seen is kept, of all that are gone; an id that comes again is another process."""
        after = {JAVA: Usage(11, 0, None), (3, 9): Usage(1, 0, JAVA)}
        self.assertEqual(_of(self.all_three, after, after), [17, 19, 19])

    def test_ended_in_part(self) -> None:
        """A parent that waited for its child, and then was not waited for itself; and all at once."""
        daemon = {JAVA: Usage(10, 0, None), DAEMON: Usage(2, 5, JAVA)}
        self.assertEqual(_of(self.all_three, daemon, {JAVA: Usage(10, 0, None)}, {}), [17, 17, 17, 17])

    def test_this_process(self) -> None:
        """There is one, and its time does not go back."""
        found = steady(os.getpid())
        self.assertEqual([each.parent for key, each in found.items() if key[0] == os.getpid()], [None])
        time = ProcessorTime.of(os.getpid())
        self.assertLessEqual(time.seconds(), time.seconds())
