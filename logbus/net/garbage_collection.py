"""Delays Python's garbage collection while a process starts, serves large requests, or adds replicas."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime

FEW_OBJECTS = 10_000
"""Young objects that the garbage collector visits within a slice."""

MANY_FROZEN = 3_000_000
"""Objects that were young when they were frozen, since all were thawed: if all were garbage, some hundred megabytes."""

MANY_REPLICAS = 1000
"""Replicas whose objects take the garbage collector longer than a slice."""

MANY_LOADED = 5000
"""Groups, offsets or transactional ids whose objects take the garbage collector longer than a slice."""

NEVER = 2**30
"""Collections of a generation that would be followed by one of the next: there are not as many."""

START_YOUNG = 5000
"""New objects that are followed by a collection of the youngest, at a start."""

YOUNGEST = 0
"""The generation of new objects."""

YOUNG = 1
"""The older of the two young generations of objects, in the terms of :mod:`gc`."""

OLDEST = 2
"""The generation of a full collection."""


@define(eq=False)
class StartupCollection:
    """
    Collects only the youngest garbage while a process starts, and freezes the rest of its objects.

    Almost all objects that are made at the start stay: modules, compiled codecs, metadata. Other collections would
    visit them again and again, for nothing: a tenth of a start; and full ones of a process that serves would block the
    reactor for about 30 ms. The garbage of an import is young: classes that attrs made anew.

    :param collector: the module :mod:`gc`.
    """

    collector: Any
    _thresholds: tuple[int, int, int] | None = field(default=None, init=False)

    def begin(self) -> None:
        """The process starts."""
        if self._thresholds is None:
            self._thresholds = self.collector.get_threshold()
            self.collector.set_threshold(START_YOUNG, NEVER, NEVER)

    def freeze(self) -> None:
        """It has started: collections pass over all present objects from now on."""
        self.collector.collect(YOUNGEST)
        self.collector.freeze()
        if self._thresholds is not None:
            self.collector.set_threshold(*self._thresholds)
            self._thresholds = None


@define(eq=False)
class GarbageCollection:
    """
    Delays Python's garbage collection while large requests are served.

    A full collection visits all objects at once, and a request of 100,000 elements makes a million of them: each
    collection would take 0.1 s. A request's objects need no collector: they are freed with their last reference.

    Collections start again some time after the work. Right after it the last request and its answer still exist, all
    young, and one collection would visit all of them: 30 to 90 ms.

    What is still there then will stay: replicas have some hundred objects each, topics and offsets some. If there is
    much of it, and whenever many replicas were added, the objects of the process are frozen: collections pass over
    them, and the next one has few to visit. What is removed later is freed with its last reference. Some that are
    frozen may be garbage, though: so when very many were, all are thawed, and the next full collection, once, takes
    its time.

    Where objects become many little by little, a full collection that took long is followed by a freeze as well: what
    it has left is no garbage.

    :param collector: the module :mod:`gc`.
    :param clock: the reactor.
    :param pause: seconds without work until garbage is collected again.
    :param patience: after so many seconds of work, young objects are collected as soon as there are few.
    :param limit: after so many seconds of work, all objects are collected, however long that takes.
    :param long: a collection of so many seconds of processor time took long.
    :ivar processor_seconds: reads the time that this thread has had of its processor.
    """

    collector: Any
    clock: IReactorTime
    pause: float = 0.5
    patience: float = 30.0
    limit: float = 600.0
    long: float = 0.008
    processor_seconds: Callable[[], float] = time.thread_time
    _since: float | None = field(default=None, init=False)
    _young_since: float = field(default=0.0, init=False)
    _added: int = field(default=0, init=False)
    _loaded: int = field(default=0, init=False)
    _frozen: int = field(default=0, init=False)
    _call: IDelayedCall | None = field(default=None, init=False)
    _collects_since: float = field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        self.collector.callbacks.append(self._collecting)

    def work_began(self) -> None:
        """Work begins: delay collections."""
        now = self.clock.seconds()
        if self._call is not None:
            self._call.cancel()
            self._call = None
        if self._since is None:
            if self.collector.isenabled():
                self.collector.disable()
                self._since = self._young_since = now
        elif now - self._since >= self.limit:
            self.collector.collect()
            self._since = self._young_since = now
        elif now - self._young_since >= self.patience and self.collector.get_count()[0] <= FEW_OBJECTS:
            self.collector.collect(YOUNG)
            self._young_since = now

    def work_ended(self) -> None:
        """Work ended: allow collections again after the pause."""
        if self._since is not None and self._call is None:
            self._call = self.clock.callLater(self.pause, self._enable)

    def replica_added(self) -> None:
        """Delay collections as for work, since more replicas may follow."""
        self._added += 1
        if self._added >= MANY_REPLICAS:
            self.collector.freeze()
            self._added = 0
        self.work_began()
        self.work_ended()

    def loaded(self, count: int) -> None:
        """
        So many groups, offsets or transactional ids were loaded, which stay: collections pass over the objects of the
        process if there are many.
        """
        self._loaded += count
        if self._loaded >= MANY_LOADED:
            self.collector.freeze()
            self._loaded = 0

    def _enable(self) -> None:
        self._call = self._since = None
        # Not its count, which old objects that were freed meanwhile have lowered.
        young = len(self.collector.get_objects(YOUNGEST))
        if young > FEW_OBJECTS:
            self._freeze(young)
        self.collector.enable()

    def _freeze(self, objects: int) -> None:
        self._frozen += objects
        if self._frozen > MANY_FROZEN:
            self.collector.unfreeze()
            self._frozen = 0
        else:
            self.collector.freeze()

    def _collecting(self, phase: str, info: dict[str, int]) -> None:
        """The collector begins or ends a collection."""
        if info["generation"] == OLDEST:
            now = self.processor_seconds()
            if phase == "start":
                self._collects_since = now
            elif now - self._collects_since > self.long:
                self._freeze(FEW_OBJECTS)
