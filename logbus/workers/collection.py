"""
The supervisor's side of a scrape: passes the metrics of the other workers on to the one that is scraped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field


@define(eq=False)
class Collection:
    """
    The metrics of workers, on their way.

    :param number: of the scrape, as the scraped worker counts.
    :param missing: the indexes of workers that have not told all.
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
