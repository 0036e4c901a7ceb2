"""Work of which some is under way at a time."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import StorageError
from logbus.storage.filesystem.bounded_work import BoundedWork


class BoundedWorkTests(SynchronousTestCase):
    """No more than so many at a time, in their order."""

    def setUp(self) -> None:
        self.begun: list[Deferred[None]] = []

    def begin(self) -> Deferred[None]:
        self.begun.append(Deferred())
        return self.begun[-1]

    def test_in_turn(self) -> None:
        """Each begins when one before it has ended; its result is its own."""
        work = BoundedWork(2)
        over = [work.run(self.begin) for _ in range(4)]
        self.assertEqual(len(self.begun), 2)
        self.begun[1].errback(StorageError("no"))
        self.failureResultOf(over[1], StorageError)
        self.assertEqual(len(self.begun), 3)
        for each in (0, 2):
            self.begun[each].callback(None)
            self.successResultOf(over[each])
        self.assertEqual(len(self.begun), 4)
        self.assertNoResult(over[3])

    def test_many_that_end_at_once(self) -> None:
        """Thousands that end as they begin, as when a disk has failed, are no deeper calls."""
        work = BoundedWork(1)
        over = [work.run(self.begin)]
        kinds: list[Callable[[], Deferred[None]]] = [lambda: succeed(None), lambda: fail(StorageError("no"))]
        over += [work.run(kinds[number % 2]) for number in range(5000)]
        self.begun[0].callback(None)
        for number, each in enumerate(over[1:]):
            if number % 2:
                self.failureResultOf(each, StorageError)
            else:
                self.successResultOf(each)

    def test_one_that_cannot_begin(self) -> None:
        """Whoever waits for it is told, and the others go on."""
        work = BoundedWork(1)

        def fails() -> Deferred[None]:
            raise StorageError("no")

        self.failureResultOf(work.run(fails), StorageError)
        self.successResultOf(work.run(lambda: succeed(None)))
