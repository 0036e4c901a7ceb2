"""Scrapes among workers: each is told the others' metrics, in turns of few samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.metrics import Family, Sample
from logbus.workers.collection import Collections
from logbus.workers.worker_link import Kind
from logbus.workers.worker_metrics import PART_SAMPLES
from logbus.workers.worker_scrapes import WorkerScrapes
from tests.admin.harness import Turning

SERIES = 10 * PART_SAMPLES


class ScrapeTests(SynchronousTestCase):
    """Three workers, of which the first is scraped."""

    def setUp(self) -> None:
        self.clock = Turning()
        self.made = 0
        self.serving = {0, 1, 2}
        self.workers = [WorkerScrapes(self.clock, self.teller(index), self.families_of(index)) for index in range(3)]
        self.collections = Collections(self.clock)

    def families_of(self, index: int) -> Any:
        def samples() -> Iterator[Sample]:
            for number in range(SERIES):
                self.made += 1
                yield Sample("logbus_many", (("n", str(number)),), index)

        def families() -> Iterable[Family] | None:
            return iter([Family("logbus_many", "Many.", "gauge", samples())]) if index in self.serving else None

        return families

    def teller(self, index: int) -> Any:
        """The supervisor, as a worker sees it."""

        def tell(kind: Kind, text: str) -> None:
            if kind is Kind.SCRAPED:
                others = {each: self.told(each) for each in range(3) if each != index}
                self.collections.begin(text, self.told(index), others)
            else:
                assert kind is Kind.COLLECTED, kind
                self.collections.take(index, text)

        return tell

    def told(self, index: int) -> Any:
        """A worker, as the supervisor sees it."""

        def tell(kind: Kind, text: str) -> None:
            worker = self.workers[index]
            (worker.collect if kind is Kind.COLLECT else worker.came)(text)

        return tell

    def turns(self) -> list[int]:
        """Let all happen; the samples made in each turn."""
        found = []
        for _ in range(100):
            before = self.made
            self.clock.turn()
            found.append(self.made - before)
        return found

    def test_all(self) -> None:
        """Everything comes, and no turn makes more than one part."""
        scraped = self.workers[0].others()
        turns = self.turns()
        found = self.successResultOf(scraped)
        self.assertEqual(
            {index: sum(1 for each in families for _ in each.samples) for index, families in found.items()},
            {1: SERIES, 2: SERIES},
        )
        self.assertLessEqual(max(turns), 2 * PART_SAMPLES)  # Two workers, whose reactor is the same here.
        self.assertEqual((len(self.collections), self.clock.getDelayedCalls()), (0, []))

    def test_two_at_once(self) -> None:
        """Two scrapes do not disturb each other."""
        scrapes = [self.workers[0].others(), self.workers[0].others(), self.workers[2].others()]
        self.turns()
        for scrape, others in zip(scrapes, ({1, 2}, {1, 2}, {0, 1}), strict=True):
            found = self.successResultOf(scrape)
            self.assertEqual(found.keys(), others)
            for families in found.values():
                self.assertEqual([sum(1 for _ in each.samples) for each in families], [SERIES])

    def test_one_stops(self) -> None:
        """A worker that stops while it tells its metrics is left out: a histogram without its end would be wrong."""
        scraped = self.workers[0].others()
        self.clock.turn()
        self.clock.turn()
        self.serving.discard(2)
        self.turns()
        self.assertNoResult(scraped)
        self.clock.advance(5)
        self.assertEqual(self.successResultOf(scraped).keys(), {1})

    def test_one_that_does_not_serve(self) -> None:
        """It has none, and says so at once."""
        self.serving.discard(2)
        scraped = self.workers[0].others()
        self.turns()
        self.assertEqual(self.successResultOf(scraped).keys(), {1})

    def test_who_scraped_has_gone(self) -> None:
        """What comes for a scrape that was given up is not kept."""
        scraped = self.workers[0].others()
        self.clock.turn()
        scraped.addErrback(lambda _: None)
        scraped.cancel()
        self.turns()
        self.assertEqual(self.workers[0]._scrapes, {})
        self.assertEqual(len(self.collections), 0)

    def test_a_failing_metric(self) -> None:
        """It is logged, and the scrape goes on without that worker."""

        def samples() -> Iterator[Sample]:
            yield Sample("logbus_many", (), 1)
            raise RuntimeError("a bug")

        self.workers[1]._families = lambda: iter([Family("logbus_many", "Many.", "gauge", samples())])
        scraped = self.workers[0].others()
        self.turns()
        self.clock.advance(5)
        self.assertEqual(self.successResultOf(scraped).keys(), {2})
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
