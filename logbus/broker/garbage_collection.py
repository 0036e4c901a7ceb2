"""Delays the garbage collection of a process that runs nothing but one broker, while that has much to do."""

from __future__ import annotations

import gc
from typing import Any

from logbus.broker.broker import Broker
from logbus.net.garbage_collection import GarbageCollection


def delay_collections(broker: Broker, collector: Any = gc) -> None:
    """
    Delay garbage collections while a broker serves large requests, adds replicas, or loads what it coordinates; see
    :class:`.GarbageCollection`.

    :param broker: not started yet.
    :param collector: the module :mod:`gc`, which is of the whole process.
    """
    garbage = broker.env.slice_scheduler.garbage = GarbageCollection(collector, broker.env.reactor)
    broker.replication.replicas.added = garbage.replica_added
    for coordinator in (
        broker.coordinators.groups,
        broker.coordinators.transactions,
        broker.coordinators.share_states,
    ):
        coordinator.slices.garbage, coordinator.loaded = garbage, garbage.loaded
