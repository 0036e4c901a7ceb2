"""
A test kit that ships with the product: real brokers for any test.

* :mod:`~logbus.testing.broker`: :class:`Broker`, a broker on a free port, in this process or in one of its own.
* :mod:`~logbus.testing.cluster`: :class:`Cluster`, several of them with a ZooKeeper, to be killed, frozen and cut off.
* :mod:`~logbus.testing.broker_process`, :mod:`~logbus.testing.network_proxy`, :mod:`~logbus.testing.zookeeper_view`:
  what that is made of: a broker's process, the network between them, and a look into ZooKeeper.
* :mod:`~logbus.testing.zookeeper`: a real ZooKeeper.
* :mod:`~logbus.testing.schema_registry`: a schema registry in memory.
* :mod:`~logbus.testing.pytest_plugin`: the fixtures ``logbus_broker`` and ``logbus_cluster``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logbus.testing.broker import Broker, BrokerFailed

if TYPE_CHECKING:
    from logbus.testing.cluster import Cluster

__all__ = ["Broker", "BrokerFailed", "Cluster"]


def __getattr__(name: str) -> object:
    """A test of one broker does not pay for what a cluster imports."""
    if name == "Cluster":
        from logbus.testing.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
