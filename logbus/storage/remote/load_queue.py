"""The order in which threads read from remote storage: what somebody waits for goes before what is read ahead."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

Run: TypeAlias = Callable[..., Deferred[Any]]
"""Runs a function with its arguments in a thread."""

SPARE = 2
"""Threads that never read ahead, if there are more: who has to wait does not wait for those that read on as well."""

_Load: TypeAlias = tuple[Deferred[Any], Callable[..., Any], tuple[Any, ...]]


@define(eq=False)
class LoadQueue:
    """
    Loads that run, and loads that wait for a thread.

    :param run: see :data:`Run`.
    :param threads: how many there are.
    """

    _run: Run
    _threads: int
    _urgent: dict[Hashable, _Load] = field(factory=dict, init=False)
    _ahead: dict[Hashable, _Load] = field(factory=dict, init=False)
    _running: int = field(default=0, init=False)

    def add(self, key: Hashable, load: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """
        Run a function in a thread, when it is its turn: that of what is read ahead.

        :param key: of no other load that waits.
        :return: fires with its result.
        """
        done: Deferred[Any] = Deferred()
        self._ahead[key] = done, load, args
        self._start()
        return done

    def hurry(self, key: Hashable) -> None:
        """Somebody waits for a load, if it waits for its turn."""
        load = self._ahead.pop(key, None)
        if load is not None:
            self._urgent[key] = load
            self._start()

    def _start(self) -> None:
        while (self._urgent and self._running < self._threads) or (
            self._ahead and self._running < max(1, self._threads - SPARE)
        ):
            loads = self._urgent or self._ahead
            done, load, args = loads.pop(next(iter(loads)))
            self._running += 1
            self._run(load, *args).addBoth(self._ended, done)

    def _ended(self, result: object, done: Deferred[Any]) -> None:
        self._running -= 1
        self._start()
        if isinstance(result, Failure):
            done.errback(result)
        else:
            done.callback(result)
