"""
Scrapes in a worker: it receives the metrics of the others when it is scraped, and sends its own when another is.

Parts go from worker to worker through the supervisor, which keeps none. :class:`.Kind` describes the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import Cooperator
from twisted.logger import Logger

from logbus.metrics import Family
from logbus.workers.worker_link import Kind
from logbus.workers.worker_metrics import CollectedFamilies, encode_in_parts


@define(eq=False)
class _Scrape:
    """
    The metrics of other workers received so far.

    :ivar whole: those of workers of which all have come.
    """

    whole_of: Deferred[dict[int, Iterable[Family]]]
    coming: dict[int, CollectedFamilies] = field(factory=dict)
    whole: dict[int, Iterable[Family]] = field(factory=dict)


@define(eq=False)
class WorkerScrapes:
    """
    Scrapes of this worker, and of others.

    :param tell: tells the supervisor something.
    :param families: returns the metrics of this worker; None: it does not serve.
    """

    _clock: IReactorTime
    _tell: Callable[[Kind, str], object]
    _families: Callable[[], Iterable[Family] | None]
    _numbers: Iterator[int] = field(factory=lambda: count(1), init=False)
    _scrapes: dict[int, _Scrape] = field(factory=dict, init=False)
    _cooperator: Cooperator = field(init=False)
    _log = Logger()

    def __attrs_post_init__(self) -> None:
        self._cooperator = Cooperator(
            terminationPredicateFactory=lambda: lambda: True,  # one part per reactor turn
            scheduler=lambda step: self._clock.callLater(0, step),
        )

    def others(self) -> Deferred[dict[int, Iterable[Family]]]:
        """Have the metrics of the others collected; what they do not tell in time is missing."""
        number = next(self._numbers)

        def cancelled(_: Deferred[dict[int, Iterable[Family]]]) -> None:
            del self._scrapes[number]

        scrape = self._scrapes[number] = _Scrape(Deferred(cancelled))
        self._tell(Kind.SCRAPED, str(number))
        return scrape.whole_of

    def came(self, text: str) -> None:
        """Take a part of another worker's metrics, or hear that all are told, or all that will be."""
        number, _, rest = text.partition(" ")
        scrape = self._scrapes.get(int(number))
        if scrape is None:
            return  # Who scraped has gone.
        if not rest:
            del self._scrapes[int(number)]
            scrape.whole_of.callback(scrape.whole)
            return
        worker, _, part = rest.partition(" ")
        index = int(worker)
        if part:
            scrape.coming.setdefault(index, CollectedFamilies()).add(part)
        elif index in scrape.coming:
            scrape.whole[index] = scrape.coming.pop(index).families()

    def collect(self, number: str) -> None:
        """Tell the metrics of this worker, in parts."""
        self._cooperator.cooperate(self._parts(number)).whenDone().addErrback(
            lambda failure: self._log.failure("the metrics of this worker could not be told", failure)
        )

    def _parts(self, number: str) -> Iterator[None]:
        families = self._families()
        for part in encode_in_parts(families if families is not None else ()):
            if self._families() is None:
                return  # It stops: its metrics change, and the scrape is one without them.
            if part:
                self._tell(Kind.COLLECTED, f"{number} {part}")
            yield None
        self._tell(Kind.COLLECTED, f"{number} ")
