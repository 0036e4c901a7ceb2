"""Bugs of share groups, each as a patch of the running product; part of :mod:`tests.planted_bugs.replication_bugs`."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, succeed

from logbus.coordination.share_state import recorded_state
from logbus.coordination.share_state.persister import SharePersister
from logbus.coordination.share_state.recorded_state import RecordedState, StateChange
from logbus.coordination.share_state.share_state import ShareState
from logbus.model import NO_EPOCH
from logbus.share.led_share_partition import LedSharePartition
from logbus.testing.simulation.settings import SHARES, Settings
from tests.planted_bugs.bug import Bug

THREE = Settings(workloads=(SHARES,), seconds=20, between=3, rate=8)
ONE = evolve(THREE, brokers=1, replication=1, min_insync=1, kinds=("power-cut", "kill"))
# Leaders do not know for a while that others have come.
APART = evolve(THREE, kinds=("flap", "isolate", "freeze", "expire", "cut", "cut-off"), between=2)


def _not_kept(self: SharePersister, *_: Any) -> Deferred[None]:
    return succeed(None)


_SAVE = LedSharePartition._save


def _answered_at_once(self: LedSharePartition, kept: Deferred[None] | None = None) -> None:
    _SAVE(self)
    if kept is not None:
        kept.callback(None)


_WRITE = recorded_state.write


def _written_by_anybody(now: RecordedState | None, change: StateChange, *args: Any) -> Any:
    return _WRITE(now, evolve(change, leader_epoch=NO_EPOCH), *args)


SHARE_BUGS: dict[str, Bug] = {
    "states of share partitions are not kept": Bug(((SharePersister, "write", _not_kept),), THREE, 3),
    "acknowledgements are answered before they are kept": Bug(
        ((LedSharePartition, "_save", _answered_at_once),), APART, 20, first=2
    ),
    "former leaders write states of share partitions": Bug(
        ((recorded_state, "write", _written_by_anybody),),
        test="tests.cluster.test_share_coordinators.CallTests.test_fencing",
    ),
    "share partitions do not forget lost records": Bug(
        ((ShareState, "truncated", lambda self, _: self),), ONE, 10, first=3
    ),
}
