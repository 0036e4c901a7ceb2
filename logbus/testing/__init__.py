"""
A test kit that ships with the product: real brokers for any test.

* :mod:`~logbus.testing.broker`: :class:`Broker`, a broker on free ports, in this process or in one of its own.
* :mod:`~logbus.testing.cluster`: :class:`Cluster`, several brokers and a ZooKeeper, to be killed, frozen and cut off.
* :mod:`~logbus.testing.zookeeper`: a real ZooKeeper.
* :mod:`~logbus.testing.schema_registry`: a schema registry in memory.
* :mod:`~logbus.testing.pytest_plugin`: the fixtures ``logbus_broker``, ``logbus_cluster`` and others.
* :mod:`~logbus.testing.simulation`: whole clusters in one process, on virtual time.

Used by these:

* :mod:`~logbus.testing.broker_process`: a broker as a child process.
* :mod:`~logbus.testing.broker_thread`: a broker in a thread of this process.
* :mod:`~logbus.testing.private_reactor`: reactors for threads of tests.
* :mod:`~logbus.testing.network_proxy`: a network between brokers that can be cut.
* :mod:`~logbus.testing.zookeeper_view`: reads ZooKeeper, and waits for changes there.
* :mod:`~logbus.testing.held_ports`: ports that stay a test's own.
* :mod:`~logbus.testing.closable`: what a test starts and closes in a ``with`` block.
* :mod:`~logbus.testing.settings`: settings as texts.
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
