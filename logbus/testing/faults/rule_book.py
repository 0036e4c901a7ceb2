"""
The rules that are in force, and what they have done so far. Safe in several threads; it knows no reactor. Pure.

The first rule that matches a request decides, in the order in which they were given.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from threading import Condition

from attrs import define, field

from logbus.testing.errors import is_closed
from logbus.testing.faults.rules import Rule

Subject = tuple[str, int | None]
"""A topic by name, and a partition, or None: the request names none."""


def _nothing(*_: object) -> None:
    """Nobody is to be told, and nothing to be waited for."""


@define(eq=False)
class ActiveRule:
    """
    A rule in force.

    :ivar number: tells it from others.
    :ivar seen: requests that matched, also those that were let through.
    :ivar hits: requests that it happened to.
    """

    number: int
    rule: Rule
    seen: int = 0
    hits: int = 0

    @property
    def spent(self) -> bool:
        """Whether it has happened as often as it should."""
        return self.rule.times is not None and self.hits >= self.rule.times


@define(eq=False)
class RuleBook:
    """
    The rules of one broker.

    :param counted: is told when a rule has seen a request.
    :ivar changed: is called when rules were put in force or ended; returns once that is so.
    :ivar settle: waits until all is here that happened in a broker in a process of its own.
    :ivar active: those that may still happen, in their order; replaced whenever it changes, so that a reader needs no
        lock.
    """

    _counted: Callable[[ActiveRule], object] = _nothing
    changed: Callable[[], object] = field(default=_nothing, init=False)
    settle: Callable[[], object] = field(default=_nothing, init=False)
    active: tuple[ActiveRule, ...] = field(default=(), init=False)
    _closed: bool = field(default=False, init=False)
    _all: dict[int, ActiveRule] = field(factory=dict, init=False)
    _numbers: itertools.count[int] = field(factory=lambda: itertools.count(1), init=False)
    _changed: Condition = field(factory=Condition, init=False)

    # For the test.

    def add(self, rule: Rule) -> int:
        """
        Put a rule in force, after those that are; its number.

        :raise BrokerFailed: the broker is closed.
        """
        with self._changed:
            if self._closed:
                raise is_closed("faults")
            number = next(self._numbers)
            self._all[number] = added = ActiveRule(number, rule)
            self.active = (*self.active, added)
        self.changed()
        return number

    def remove(self, number: int) -> bool:
        """End a rule; whether it was in force. What it has done stays known."""
        with self._changed:
            before = self.active
            self.active = tuple(each for each in before if each.number != number)
            self._changed.notify_all()
            removed = len(self.active) < len(before)
        self.changed()
        return removed

    def clear(self) -> None:
        """End all rules."""
        with self._changed:
            self.active = ()
            self._changed.notify_all()
        self.changed()

    def close(self) -> None:
        """End all rules for good: the broker is closed. What they have done stays known."""
        self._closed = True
        self.clear()

    def rules(self) -> Sequence[tuple[int, Rule, int]]:
        """The numbers, the rules, and how often each has happened, of those in force."""
        self.settle()
        return [(each.number, each.rule, each.hits) for each in self.active]

    def hits(self, number: int) -> int:
        """
        How often a rule has happened.

        :raise KeyError: there never was such a rule.
        """
        self.settle()
        return self._all[number].hits

    def wait(self, number: int, hits: int, seconds: float) -> bool:
        """
        Wait until a rule has happened so often; False: it has not, in so many seconds, or cannot any more.

        :raise BrokerFailed: the broker is closed before.
        """
        until = time.monotonic() + seconds
        active = self._all[number]
        with self._changed:
            while active.hits < hits:
                if self._closed:
                    raise is_closed(f"wait: the fault has happened to {active.hits}, not {hits} requests")
                left = until - time.monotonic()
                if left <= 0 or active not in self.active:
                    return False
                self._changed.wait(left)
        return True

    # For the broker, which may be in a process of its own, with a copy of the book.

    def replace(self, rules: Sequence[tuple[int, Rule, int, int]]) -> None:
        """Have these in force: their numbers, and what they have seen and done; a known one knows that by itself."""
        with self._changed:
            for number, rule, seen, hits in rules:
                self._all.setdefault(number, ActiveRule(number, rule, seen, hits))
            known = [self._all[number] for number, *_ in rules]
            self.active = tuple(each for each in known if not each.spent)

    def count(self, number: int, hits: int, is_spent: bool) -> None:
        """Note how often a rule has happened in all copies, and whether it is spent in all."""
        with self._changed:
            active = self._all[number]
            active.hits = hits
            if is_spent:
                self.active = tuple(each for each in self.active if each is not active)
            self._changed.notify_all()

    def concerned(self, api_key: int, client_id: str | None) -> bool:
        """Whether a rule may happen to requests of this API and client."""
        return any(each.rule.concerns(api_key, client_id) for each in self.active)

    def take(
        self, api_key: int, client_id: str | None, subjects: Callable[[], Sequence[Subject]]
    ) -> tuple[Rule, int] | None:
        """
        The rule that happens to a request, with its number; it is counted. None: none does.

        :param subjects: returns the topics and partitions of the request; called if a rule asks for them.
        """
        known: Sequence[Subject] | None = None
        for each in self.active:
            rule = each.rule
            if not rule.concerns(api_key, client_id):
                continue
            if rule.is_about_topics:
                if known is None:
                    known = subjects()
                if not any(rule.names(topic, partition) for topic, partition in known):
                    continue
            with self._changed:
                if each not in self.active:
                    continue
                each.seen += 1
                if each.seen <= rule.skip:
                    self._counted(each)
                    continue
                each.hits += 1
                if each.spent:
                    self.active = tuple(other for other in self.active if other is not each)
                self._counted(each)
                self._changed.notify_all()
            return rule, each.number
        return None
