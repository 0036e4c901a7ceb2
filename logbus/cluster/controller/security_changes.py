"""
Changes of security nodes by the active controller. They run on its event queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twisted.logger import Logger

from logbus.cluster.controller.active_controller import ActiveController
from logbus.cluster.controller.broker_channels import PendingUpdates
from logbus.cluster.controller.update_batch import UpdateBatch
from logbus.metastore.operations import Delete, NoNode, Watcher
from logbus.metastore.pipelined_reads import get_all
from logbus.metastore.security_znodes import changed_entity, security_root
from logbus.metastore.znodes import CONFIG_CHANGES

_log = Logger(namespace="logbus.cluster.controller")


async def write_nodes(active: ActiveController, changes: Mapping[str, bytes | None]) -> PendingUpdates:
    """Write nodes, or remove those whose content is None, and send them to the brokers."""
    table = active.state.security_nodes
    groups = table.plan(changes)
    await active.fence.write(groups)
    table.apply(groups)
    return active.channels.send(UpdateBatch(security_nodes=frozenset(changes)))


async def take_announced_changes(active: ActiveController, watch: Watcher) -> None:
    """
    Load nodes of users, client ids and addresses that were changed in the metadata store by Kafka's older tools, which
    announce that below ``/config/changes`` (Kafka: ZkConfigManager), and send them to the brokers.

    :param watch: fires at the next announcement.
    """
    store = active.fence.store
    try:
        announcements = [f"{CONFIG_CHANGES}/{name}" for name in await store.children(CONFIG_CHANGES, watch)]
    except NoNode:
        return
    if not announcements:
        return
    changed = set()
    for found in await get_all(store, announcements):
        path = None if found is None else changed_entity(found[0])
        if path is not None:
            try:
                security_root(path)
            except ValueError:
                _log.warn("a change of {path} was announced, and is not taken: ask a broker for it", path=path)
            else:
                changed.add(path)
    await _reload(active, changed)
    await active.fence.write((Delete(path),) for path in announcements)
    if changed:
        active.channels.send(UpdateBatch(security_nodes=frozenset(changed)))


async def _reload(active: ActiveController, changed: Iterable[str]) -> None:
    paths = sorted({one for path in changed for one in _with_parents(path)})
    for path, found in zip(paths, await get_all(active.fence.store, paths), strict=True):
        if found is None:
            active.state.security_nodes.remove(path)
        else:
            data, stat = found
            active.state.security_nodes.put(path, data, stat.version)


def _with_parents(path: str) -> Iterable[str]:
    """A path, and the nodes between it and its root."""
    root = security_root(path)
    while path != root:
        yield path
        path = path.rpartition("/")[0]
