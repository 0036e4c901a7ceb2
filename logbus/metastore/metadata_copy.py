"""
Copies a cluster's metadata from one store to another.

The cluster's id is written last: until it is there no broker uses the copy, and it can be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import evolve

from logbus.errors import LogbusError
from logbus.metastore.cluster_znodes import ControllerEpochZnode
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.metadata_file import Metadata
from logbus.metastore.operations import ROOT, Create, MultiFailed, NoNode
from logbus.metastore.pipelined_reads import get_all, in_turn
from logbus.metastore.znodes import BROKER_IDS, BROKER_INCARNATIONS, CLUSTER_ID, CONTROLLER_EPOCH, TOPICS, StateZnode

BATCH_NODES = 500
BATCH_BYTES = 500_000
"""Of one transaction; ZooKeeper takes 1 MB."""
READINGS = 5
"""Of metadata that change meanwhile."""
SKIPPED_PATHS = frozenset({"/zookeeper", BROKER_INCARNATIONS})
"""Not copied: ZooKeeper's own nodes, and broker epochs, which are transaction numbers of that store."""


SKIPPED_EPOCHS = 1_000_000
"""
Of the controller and of leaders, which only increase, while a copy is older than what brokers have seen: they would
refuse its controllers, and followers could not find out where their logs and those of its leaders part.
"""
_STATE = re.compile(f"{TOPICS}/([^/]+)/partitions/([0-9]+)/state")


class NotCopied(LogbusError):
    """A store cannot be copied from or to as it is; nothing was changed in it."""


async def read_all(store: IMetadataStore) -> dict[str, bytes]:
    """
    Every persistent node but the root.

    :raise NotCopied: a broker is registered: its changes during the copy would be missing.
    """
    await store.sync()
    await _refuse_brokers(store)
    return await _read_nodes(store)


async def read_running(store: IMetadataStore) -> dict[str, bytes]:
    """
    Every persistent node but the root, while brokers run: what two readings in a row agree on, or else the last one.

    Those of the last one may not belong together. The caller checks that, in a thread: with ten thousand partitions
    :func:`~logbus.metastore.metadata_file.check` takes a quarter of a second.
    """
    await store.sync()
    previous: dict[str, bytes] = {}
    for _ in range(READINGS):
        found = await _read_nodes(store)
        if found == previous:
            break
        previous = found
    return found


async def _read_nodes(store: IMetadataStore) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    level = [ROOT]
    while level:
        children = await in_turn(store.children(path) for path in level)
        paths = [
            f"{path.rstrip('/')}/{name}"
            for path, names in zip(level, children, strict=True)
            for name in names or ()
            if f"{path.rstrip('/')}/{name}" not in SKIPPED_PATHS
        ]
        level = []
        for path, held in zip(paths, await get_all(store, paths), strict=True):
            if held is not None and held[1].ephemeral_owner == 0:
                found[path] = held[0]
                level.append(path)
    return found


def superseding(metadata: Metadata) -> Metadata:
    """Return metadata for brokers that have seen elections, of controllers and leaders, after the copy was made."""
    nodes = dict(metadata.nodes)
    epoch = ControllerEpochZnode.decode(nodes.get(CONTROLLER_EPOCH, b"0"))
    nodes[CONTROLLER_EPOCH] = ControllerEpochZnode.encode(epoch + SKIPPED_EPOCHS)
    for path, data in metadata.nodes.items():
        if found := _STATE.fullmatch(path):
            state = StateZnode.decode(found[1], int(found[2]), data, 0)
            nodes[path] = StateZnode.encode(evolve(state, leader_epoch=state.leader_epoch + SKIPPED_EPOCHS))
    return Metadata(nodes)


async def write_all(store: IMetadataStore, metadata: Metadata) -> int:
    """
    Create every node; existing ones with the same data are left (an earlier attempt was interrupted).

    :return: the number of nodes created.
    :raise NotCopied: a broker is registered, or the store has a cluster, or other nodes of its own.
    """
    await store.sync()
    await _refuse_brokers(store)
    missing: dict[str, bytes] = {}
    paths = list(metadata.nodes)
    for path, held in zip(paths, await get_all(store, paths), strict=True):
        if held is None:
            missing[path] = metadata.nodes[path]
        elif path == CLUSTER_ID:
            raise NotCopied(f"there is a cluster already: {CLUSTER_ID} holds {held[0].decode(errors='replace')}")
        elif held[0] != metadata.nodes[path]:
            raise NotCopied(f"{path} is there already, and holds something else")
    for batch in _batches(missing):
        try:
            await store.multi(batch)
        except MultiFailed as e:
            raise NotCopied(f"somebody else writes there: {e}") from e
    return len(missing)


async def _refuse_brokers(store: IMetadataStore) -> None:
    try:
        alive = await store.children(BROKER_IDS)
    except NoNode:
        return
    if alive:
        raise NotCopied(f"broker {', '.join(alive)} is registered there: stop it first")


def _batches(nodes: dict[str, bytes]) -> Iterator[list[Create]]:
    """Parents first, the cluster's id last."""
    batch: list[Create] = []
    size = 0
    for path in sorted(nodes, key=lambda path: (path == CLUSTER_ID, path.count("/"), path)):
        if len(batch) == BATCH_NODES or size + len(nodes[path]) > BATCH_BYTES or (path == CLUSTER_ID and batch):
            yield batch
            batch, size = [], 0
        batch.append(Create(path, nodes[path]))
        size += len(path) + len(nodes[path])
    if batch:
        yield batch
