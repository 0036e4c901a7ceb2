"""Tests of :mod:`logbus.metastore.metadata_copy`."""

from __future__ import annotations

from attrs import evolve

from logbus.metastore.cluster_znodes import ControllerEpochZnode
from logbus.metastore.metadata_copy import SKIPPED_EPOCHS, superseding
from logbus.metastore.metadata_file import Metadata
from logbus.metastore.znodes import CLUSTER_ID, CONTROLLER_EPOCH, StateZnode
from logbus.model import LeaderAndIsr


def test_superseding() -> None:
    """What is imported has later epochs than brokers can have seen; all else stays, and it is the same each time."""
    path = StateZnode.path("orders", 3)
    state = LeaderAndIsr(1, 5, (1, 2), controller_epoch=7, eligible=(0,), unclean_epoch=4, unproven=(3,))
    given = Metadata({CLUSTER_ID: b"x", CONTROLLER_EPOCH: b"7", path: StateZnode.encode(state)})
    found = superseding(given).nodes
    assert ControllerEpochZnode.decode(found[CONTROLLER_EPOCH]) == SKIPPED_EPOCHS + 7
    raised = evolve(state, leader_epoch=SKIPPED_EPOCHS + 5)
    assert StateZnode.decode("orders", 3, found[path], 0) == raised
    assert found[CLUSTER_ID] == b"x"
    assert found == superseding(given).nodes
