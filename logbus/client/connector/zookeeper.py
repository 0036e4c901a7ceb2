"""The store that a connector wants, by ``zookeeper.connect``."""

from __future__ import annotations

from typing import Any

from logbus.metastore.connect_string import ConnectString
from logbus.metastore.zookeeper_store import ZooKeeperStore, require_kazoo


def zookeeper_store(reactor: Any, connect: str, *, session_timeout: float = 6.0) -> ZooKeeperStore:
    """
    The ZooKeeper of a cluster; ``open()`` and ``close()`` it, both give Deferreds.

    :param connect: ``HOST:PORT,HOST:PORT/CHROOT``, the same that the brokers have as ``zookeeper.connect``.
    :param session_timeout: seconds without a sign of life until the partitions of a consumer go to others.
    :raise ConfigError: ``connect`` is not of this form, or the client library is missing: it comes with
        the extra ``zookeeper``.
    """
    require_kazoo()
    return ZooKeeperStore(ConnectString.parse(connect), reactor, session_timeout, complain_seconds=session_timeout)
