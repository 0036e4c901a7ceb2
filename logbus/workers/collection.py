"""
The supervisor's side of scrapes: passes the metrics of the other workers on to the one that is scraped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IReactorTime

from logbus.workers.worker_link import Kind

COLLECT_SECONDS = 5.0
"""Timeout for the metrics of a worker; a scrape leaves out those of workers that take longer."""

Tell = Callable[[Kind, str], object]
"""Tells a worker something."""


@define(eq=False)
class Collection:
    """
    One collection of the metrics of the workers that are not scraped themselves.

    :param number: the scraped worker's number of its scrape.
    :param missing: the indexes of workers whose metrics have not all come.
    :param pass_on: tells the scraped worker something.
    :param ended: called at the end, once.
    """

    _number: str
    _missing: set[int]
    _pass_on: Callable[[str], object]
    _ended: Callable[[], object]
    timer: Any = field(default=None, init=False)

    def take(self, index: int, part: str) -> None:
        """Take a part from a worker; the empty one is its last."""
        if index not in self._missing:
            return
        self._pass_on(f"{self._number} {index} {part}")
        if not part:
            self._missing.discard(index)
            self.end_if_whole()

    def end_if_whole(self) -> None:
        """End when all have told all."""
        if not self._missing:
            self.end()

    def end(self) -> None:
        """Have the scrape go on with what there is."""
        if self.timer.active():
            self.timer.cancel()
        self._pass_on(self._number)
        self._ended()


@define(eq=False)
class Collections:
    """The collections under way, each for one scrape of one worker."""

    _clock: IReactorTime
    _numbers: Iterator[int] = field(factory=lambda: count(1), init=False)
    _under_way: dict[int, Collection] = field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, scrape: str, asking: Tell, others: Mapping[int, Tell]) -> None:
        """
        Have the metrics of workers collected for one that is scraped.

        :param scrape: its number, as the scraped worker counts.
        :param asking: the scraped worker.
        :param others: those that serve, by their index.
        """
        number = next(self._numbers)
        collection = self._under_way[number] = Collection(
            scrape, set(others), partial(asking, Kind.OTHERS), partial(self._under_way.pop, number, None)
        )
        collection.timer = self._clock.callLater(COLLECT_SECONDS, collection.end)
        for tell in others.values():
            tell(Kind.COLLECT, str(number))
        collection.end_if_whole()

    def take(self, index: int, text: str) -> None:
        """Take a part from a worker: the collection's number, and the part."""
        number, _, part = text.partition(" ")
        collection = self._under_way.get(int(number))
        if collection is not None:
            collection.take(index, part)

    def end(self) -> None:
        """Have all scrapes go on with what there is."""
        for collection in list(self._under_way.values()):
            collection.end()
