"""Connects a consumer to ZooKeeper by a connect string (``zookeeper.connect``)."""

from __future__ import annotations

from typing import Any

from logbus.metastore.connect_string import ConnectString
from logbus.metastore.zookeeper_store import ZooKeeperStore, require_kazoo


def zookeeper_store(reactor: Any, connect: str, *, session_timeout: float = 6.0) -> ZooKeeperStore:
    """
    A connection to the cluster's ZooKeeper; its ``open()`` and ``close()`` return Deferreds.

    :param connect: ``HOST:PORT,HOST:PORT/CHROOT``, like the brokers' ``zookeeper.connect``.
    :param session_timeout: seconds without a heartbeat until other consumers get this one's partitions.
    :raise ConfigError: ``connect`` is malformed, or the client library (the extra ``zookeeper``) is missing.
    """
    require_kazoo()
    return ZooKeeperStore(ConnectString.parse(connect), reactor, session_timeout, complain_seconds=session_timeout)
