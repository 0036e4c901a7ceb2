"""Loads the security nodes from the metadata store: for the controller, and for a broker that has no update yet."""

from __future__ import annotations

from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.pipelined_reads import get_all, in_turn
from logbus.metastore.security_znodes import SECURITY_ROOTS
from logbus.net.time_slices import TimeSlice

PART = 200
"""Nodes that are read before others have a turn."""


async def load_security_nodes(store: IMetadataStore, time_slice: TimeSlice) -> dict[str, tuple[bytes, int]]:
    """Contents and versions by path; also of nodes that are only parents of others, whose contents are empty."""
    found: dict[str, tuple[bytes, int]] = {}
    for root, levels in SECURITY_ROOTS.items():
        parents = [root]
        for _ in range(levels):
            paths: list[str] = []
            async for part in time_slice.over_parts(parents, PART):
                children = await in_turn(store.children(parent) for parent in part)
                for parent, names in zip(part, children, strict=True):
                    paths += [f"{parent}/{name}" for name in names or ()]
            async for part in time_slice.over_parts(paths, PART):
                for path, node in zip(part, await get_all(store, part), strict=True):
                    if node is not None:
                        data, stat = node
                        found[path] = data, stat.version
            parents = paths
    return found
