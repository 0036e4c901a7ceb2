"""Copies what a cluster has in ZooKeeper out of it, and into another place there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from logbus.metastore.tree import Row


def read_nodes(servers: str, chroot: str, timeout: float) -> list[Row]:
    """
    The nodes below a place that no session owns, each before those below it; their paths begin there.

    :param servers: of ZooKeeper, without a chroot.
    :raise kazoo.exceptions.KazooException: ZooKeeper does not answer.
    """
    from kazoo.exceptions import NoNodeError

    found: list[Row] = []
    with _client(servers, timeout) as client:
        waiting = [""]
        while waiting:
            path = waiting.pop(0)
            try:
                data, stat = client.get(chroot + path)
                children = client.get_children(chroot + path)
            except NoNodeError:  # of a session that has just ended
                continue
            if stat.ephemeralOwner:
                continue
            times = stat.czxid, stat.mzxid, stat.ctime, stat.mtime
            found.append(Row(path, data or b"", *times, stat.version, stat.cversion, 0))
            waiting += [f"{path}/{child}" for child in sorted(children)]
    return found


def write_nodes(servers: str, chroot: str, nodes: Sequence[Row], timeout: float) -> None:
    """
    Make these nodes below a place where there is nothing yet.

    :raise kazoo.exceptions.KazooException: ZooKeeper does not answer, or refuses one.
    """
    with _client(servers, timeout) as client:
        # Many at once: each waits for ZooKeeper's disk.
        made = [client.create_async(chroot + node.path, node.data) for node in nodes]
        for each in made:
            each.get(timeout=timeout)


@contextmanager
def _client(servers: str, timeout: float) -> Iterator[Any]:
    from kazoo.client import KazooClient

    client: Any = KazooClient(servers, timeout=10.0)
    client.start(timeout)
    try:
        yield client
    finally:
        client.stop()
        client.close()
