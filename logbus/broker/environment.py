"""
The parts that all subsystems of a broker are built with.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

from attrs import field, frozen

from logbus.config import ConfigView, keys
from logbus.metrics import Registry
from logbus.net.time_slices import SliceScheduler
from logbus.timers import Timers

_CANCELLED = 64
"""Cancelled deadlines that may stay: nearly every request has one, and is answered long before it."""


@frozen(eq=False)
class Environment:
    """
    The outside world of a broker, and what its subsystems share.

    :ivar reactor: runs everything the broker does.
    :ivar wall_clock: seconds since 1970.
    :ivar random: the source of random choices.
    :ivar registry: lists the metrics, which their owners declare.
    :ivar timers: for requests between brokers.
    :ivar slice_scheduler: gives time slices to requests of many elements.
    """

    reactor: Any
    config: ConfigView
    wall_clock: Callable[[], float]
    random: Random
    registry: Registry = field(factory=Registry)
    timers: Timers = field()
    slice_scheduler: SliceScheduler = field()

    @timers.default
    def _timers(self) -> Timers:
        return Timers(self.reactor, slack=_CANCELLED)

    @slice_scheduler.default
    def _slice_scheduler(self) -> SliceScheduler:
        return SliceScheduler(self.reactor)

    @property
    def broker_id(self) -> int:
        """This broker's id."""
        return self.config.get(keys.BROKER_ID)

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(self.wall_clock() * 1000)

    def new_uuid(self) -> UUID:
        """Return a random UUID."""
        return UUID(int=self.random.getrandbits(128), version=4)
