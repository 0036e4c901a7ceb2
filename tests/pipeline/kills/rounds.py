"""Rounds that each kill a process of a job, at a point or at a random moment, and check the records."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from random import Random
from typing import Any, TypeVar

from attrs import define, field, frozen

from tests.pipeline.kills.workplace import PATIENCE, Driver, Workplace
from tests.pipeline.standalone import descendants, kill

LONGEST = 3.0
"""Seconds from them to a kill that waits for no point, at most."""

LOCAL = "local[2]"
_ORDER = ("worker", "executor", "committer", "driver", "all")
_LOOK = 0.02
_ATTEMPTS = 3

T = TypeVar("T")


@frozen
class Kill:
    """
    Of one round.

    :ivar who: ``worker`` (a task's Python), ``executor`` (Java, with all its tasks) or ``driver`` (Python and Java) of
        a Spark of several processes; ``all``, which is the driver of a Spark that is one process; ``committer``, the
        process in which a driver ends transactions.
    :ivar point: where it, or another process of the job, is just then; None: anywhere.
    """

    who: str
    point: str | None


@frozen(kw_only=True)
class Report:
    """
    :ivar records: that were to be taken over.
    :ivar missing: of them that were not;  ``double``: that were more than once;  ``foreign``: that came from nowhere.
    :ivar kills: what was killed, and where the job was then.
    :ivar commits: that jobs made.
    :ivar failures: why jobs ended by themselves; they were started again.
    """

    records: int
    missing: int
    double: int
    foreign: int
    kills: tuple[str, ...]
    commits: int
    failures: tuple[str, ...]
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether each record is there once."""
        return not (self.missing or self.double or self.foreign)

    def lines(self) -> Iterator[str]:
        """All of it, for people."""
        yield f"{len(self.kills)} kills in {self.seconds:.0f} s:"
        yield from (f"  {count} x {what}" for what, count in sorted(Counter(self.kills).items()))
        yield f"ended by themselves and were started again: {len(self.failures)}"
        yield from (f"  {each}" for each in self.failures)
        yield f"commits {self.commits}, records {self.records}"
        yield f"missing {self.missing}, double {self.double}, foreign {self.foreign}"


@define(eq=False)
class Rounds:
    """
    One kill after the other.

    :param module: of the driver, which is told ``asked`` and the master.
    :param committed: the point that is passed with each commit.
    :param early: points that a driver passes once, before its first commit.
    :param commits: are made in a round before somebody is killed.
    """

    chance: Random
    say: Callable[[str], object]
    place: Workplace
    module: str
    asked: Mapping[str, Any]
    committed: str
    early: Sequence[str] = ()
    commits: int = 2
    driver: Driver | None = None
    kills: list[str] = field(factory=list)
    failures: list[str] = field(factory=list)
    begun: float = field(factory=time.monotonic)

    def running(self, master: str) -> Driver:
        """A driver that has not ended."""
        if self.driver is not None and self.driver.has_ended:
            self.ended()
        if self.driver is not None and self.driver.master != master:
            self.away()
        if self.driver is None:
            ours = {"bootstrap": self.place.broker.bootstrap, "settings": self.place.settings, "master": master}
            self.driver = Driver.start(self.module, {**self.asked, **ours})
        return self.driver

    def away(self) -> None:
        """Without a driver."""
        if self.driver is not None:
            self.driver.kill()
            self.driver = None

    def ended(self) -> None:
        """The driver has ended, though nobody has killed it."""
        assert self.driver is not None
        self.failures.append(f"exit {self.driver.process.returncode}: {self.driver.last:.300}")
        self.say(f"  a driver ended: {self.failures[-1]}")
        self.driver = None

    def wait(self, master: str, what: str, find: Callable[[], T]) -> T:
        """
        Wait until something is found, while a driver runs.

        :raise AssertionError: it takes too long.
        """
        deadline = time.monotonic() + PATIENCE
        while not (found := find()):
            assert time.monotonic() < deadline, f"{what}: not in {PATIENCE:g} s; {self.failures}"
            self.running(master)
            time.sleep(_LOOK)
        return found

    def round(self, number: int, wanted: Kill) -> None:
        """Kill one."""
        orders = self.place.orders
        master = LOCAL if wanted.who == "all" else self.place.spark.url
        if wanted.point in self.early:
            self.away()
        else:
            enough = orders.count(self.committed) + self.commits
            self.wait(master, f"{self.commits} commits", lambda: orders.count(self.committed) >= enough)
        if wanted.point is None:
            time.sleep(self.chance.uniform(0, LONGEST))
        else:
            orders.hold(wanted.point)
            self.wait(master, f"point {wanted.point}", orders.held)
        where = f"at {wanted.point}" if wanted.point else f"anywhere, after {orders.last}"
        if wanted.who in ("driver", "all"):
            self.running(master)
            self.away()
        else:
            kill(self.chance.choice(self.wait(master, f"a {wanted.who}", lambda: self.found(wanted))))
        orders.release()
        self.kills.append(f"{wanted.who} {'at ' + wanted.point if wanted.point else 'anywhere'}")
        self.say(f"round {number}, {time.monotonic() - self.begun:.0f} s: {wanted.who} killed {where}")

    def found(self, wanted: Kill) -> Sequence[int]:
        """Whom to choose from."""
        held = self.place.orders.held()
        if wanted.who == "executor":
            them = self.place.spark.executors()
            return [each for each in them if held is not None and held in descendants(each)] or them
        return self.place.spark.python_workers() if held is None else [held]

    def finish(self) -> str:
        """
        Take all that is left, undisturbed; what the driver says in the end.

        :raise AssertionError: no driver can.
        """
        self.place.orders.release()
        for _ in range(_ATTEMPTS):
            driver = self.running(LOCAL if self.driver is None else self.driver.master)
            if driver.finish():
                self.driver = None
                return driver.last
            self.ended()
        raise AssertionError(f"what is left is not taken: {self.failures[-1]}")


def plan(rounds: int, chance: Random, who: Sequence[str], points: Mapping[str, Sequence[str | None]]) -> list[Kill]:
    """
    Who is killed where; those that can have the same driver come together, as it takes long to start.

    :param who: in turn.
    :param points: for each of them. Each list is used up, in any order, before a point of it comes again.
    """
    left = {id(each): cycle(chance.sample(each, len(each))) for each in points.values()}
    kills = [Kill(each, next(left[id(points[each])])) for each in islice(cycle(who), rounds)]
    return sorted(kills, key=lambda each: _ORDER.index(each.who))
