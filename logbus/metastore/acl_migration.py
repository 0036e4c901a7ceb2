"""
Protects the nodes of a cluster that was open, or opens those of a protected one (Kafka: ZkSecurityMigrator).

Brokers protect only what they create. Here all nodes are gone through, while the cluster runs; whoever is interrupted
begins again.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from logbus.errors import LogbusError
from logbus.metastore.operations import ROOT, NodeAccess, NodeExists, NotAllowed
from logbus.metastore.pipelined_reads import in_turn
from logbus.metastore.secret_paths import CONSUMERS, access_of
from logbus.metastore.znodes import BROKER_IDS, PERSISTENT_PATHS
from logbus.metastore.zookeeper_store import ZooKeeperStore

AT_A_TIME = 200
"""Nodes whose requests are in flight together."""

OWN_ROOTS = frozenset(path for path in PERSISTENT_PATHS if path.count("/") == 1) | {
    CONSUMERS,
    "/controller",
    "/controller_epoch",
    "/feature_level",
    "/latest_producer_id_block",
    # Of Kafka's brokers and tools.
    "/feature",
    "/isr_change_notification",
    "/kafka-acl-changes",
    "/kafka-acl-extended-changes",
    "/log_dir_event_notification",
    "/migration",
}
"""Without a chroot, other applications may have nodes beside these."""


class NotMigrated(LogbusError):
    """The nodes cannot be protected or opened as things are; those that were reached already stay as they are now."""


async def migrate(store: ZooKeeperStore, *, secure: bool, dry_run: bool = False) -> Counter[str]:
    """
    Give all nodes the ACLs that they have in a protected cluster, or in an open one.

    :param store: opened with the brokers' credentials.
    :param dry_run: only look.
    :return: how many nodes have each access afterwards; with ``dry_run``, how many would get another one, as
        ``open to readable``.
    :raise NotMigrated: a broker would be locked out, or nodes belong to others.
    """
    await store.sync()
    if secure:
        await _refuse_open_brokers(store)
    found: Counter[str] = Counter()
    try:
        # Brokers first: if they have other credentials than this client, nothing else is changed.
        (brokers,) = await _children(store, [BROKER_IDS])
        if not dry_run:
            await _apply(store, brokers, secure)
            if secure:
                await _make_open(store, CONSUMERS)
        waiting = [ROOT]
        while waiting:
            paths = waiting[-AT_A_TIME:]
            del waiting[-AT_A_TIME:]
            found += await (_compare if dry_run else _apply)(store, paths, secure)
            for children in await _children(store, paths):
                waiting += [path for path in children if store.connect.chroot or _is_ours(path)]
    except NotAllowed as e:
        raise NotMigrated(str(e)) from e
    return found


def _is_ours(path: str) -> bool:
    return f"/{path.split('/')[1]}" in OWN_ROOTS


def _wanted(path: str, secure: bool) -> NodeAccess:
    return access_of(path) if secure else NodeAccess.OPEN


async def _refuse_open_brokers(store: ZooKeeperStore) -> None:
    """A broker's registration is not protected if it runs without ``zookeeper.set.acl``."""
    (brokers,) = await _children(store, [BROKER_IDS])
    accesses = await in_turn(store.access(path) for path in brokers)
    unprotected = [
        path.rpartition("/")[2] for path, access in zip(brokers, accesses, strict=True) if access is NodeAccess.OPEN
    ]
    if unprotected:
        raise NotMigrated(
            f"broker {', '.join(unprotected)} runs without zookeeper.set.acl=true, and would be locked out: restart it "
            "with that first"
        )


async def _apply(store: ZooKeeperStore, paths: list[str], secure: bool) -> Counter[str]:
    wanted = [_wanted(path, secure) for path in paths]
    done = await in_turn(
        store.set_access(path, access).addCallback(lambda _: True) for path, access in zip(paths, wanted, strict=True)
    )
    return Counter(access.value for access, was_there in zip(wanted, done, strict=True) if was_there)


async def _compare(store: ZooKeeperStore, paths: list[str], secure: bool) -> Counter[str]:
    accesses = await in_turn(store.access(path) for path in paths)
    return Counter(
        f"{access.value} to {wanted.value}"
        for path, access in zip(paths, accesses, strict=True)
        if access is not None and access is not (wanted := _wanted(path, secure))
    )


async def _make_open(store: ZooKeeperStore, path: str) -> None:
    """Consumers without credentials could not make it any more."""
    with suppress(NodeExists):
        await store.create(path)
    await store.set_access(path, NodeAccess.OPEN)


async def _children(store: ZooKeeperStore, paths: list[str]) -> list[list[str]]:
    """The paths of the children of each of these nodes; none if it is gone."""
    found = await in_turn(store.children(path) for path in paths)
    return [[f"{path.rstrip('/')}/{name}" for name in names or ()] for path, names in zip(paths, found, strict=True)]
