"""
A test kit that ships with the product: real brokers for any test.

* :mod:`~logbus.testing.broker`: :class:`Broker`, a broker on free ports, in this process or in one of its own.
* :mod:`~logbus.testing.local_cluster`: :class:`LocalCluster`, several brokers in this process, without ZooKeeper.
* :mod:`~logbus.testing.cluster`: :class:`Cluster`, brokers and a ZooKeeper, to be killed, frozen and cut off.
* :mod:`~logbus.testing.zookeeper`: a real ZooKeeper.
* :mod:`~logbus.testing.schema_registry`: a schema registry in memory.
* :mod:`~logbus.testing.memory`: brokers in memory, on a virtual clock.
* :mod:`~logbus.testing.pytest_plugin`: the fixtures ``logbus_broker``, ``logbus_cluster`` and others.
* :mod:`~logbus.testing.faults`: requests of clients that fail on command.
* :mod:`~logbus.testing.simulation`: whole clusters in one process, on virtual time.
* :mod:`~logbus.testing.server`: ``logbus test-server``, brokers for programs in any language.

* :mod:`~logbus.testing.inspected`: what a test asks of its broker: records, groups, and waits for both.
* :mod:`~logbus.testing.admin`: :class:`~logbus.testing.admin.Admin`, a small admin client without Deferreds.

Used by these:

* :mod:`~logbus.testing.broker_process`: a broker as a child process.
* :mod:`~logbus.testing.broker_thread`: a broker in a thread of this process.
* :mod:`~logbus.testing.logged`: what a broker has logged, and a wait for it.
* :mod:`~logbus.testing.broker_log`: the last lines of a broker's log.
* :mod:`~logbus.testing.reactor_thread`: a thread with a reactor, that brokers and clients of tests run in.
* :mod:`~logbus.testing.requests`: requests of clients as a test sees them.
* :mod:`~logbus.testing.controlled`: what a test does to its broker: faults, time, snapshots.
* :mod:`~logbus.testing.control`: how it is done to a broker in a process of its own.
* :mod:`~logbus.testing.snapshots`: snapshots of a broker's data.
* :mod:`~logbus.testing.disk_filling`: whether the disk of a broker is full.
* :mod:`~logbus.testing.fillable_disk`: log directories that refuse writes then.
* :mod:`~logbus.testing.offset_clock`: a clock that can be put forward.
* :mod:`~logbus.testing.private_reactor`: reactors for threads of tests.
* :mod:`~logbus.testing.cluster_roles`: leaders, followers and controllers of a cluster, and waits for them.
* :mod:`~logbus.testing.resettable_cluster`: clusters that begin anew, or with a snapshot.
* :mod:`~logbus.testing.errors`: what brokers and clusters raise.
* :mod:`~logbus.testing.waiting`: waits for what has no event.
* :mod:`~logbus.testing.store_view`: reads a metadata store in memory, and waits for changes there.
* :mod:`~logbus.testing.broker_links`: the connections between brokers in one process, which can be cut.
* :mod:`~logbus.testing.network_proxy`: a network between brokers that can be cut.
* :mod:`~logbus.testing.zookeeper_view`: reads ZooKeeper, and waits for changes there.
* :mod:`~logbus.testing.zookeeper_copy`: copies what a cluster has in ZooKeeper.
* :mod:`~logbus.testing.arguments`: checks what tests give brokers and clusters.
* :mod:`~logbus.testing.placement`: where a broker listens, and what it tells its clients.
* :mod:`~logbus.testing.held_ports`: ports that stay a test's own.
* :mod:`~logbus.testing.closable`: what a test starts and closes in a ``with`` block.
* :mod:`~logbus.testing.temporary`: temporary directories.
* :mod:`~logbus.testing.settings`: settings as texts.
* :mod:`~logbus.testing.pytest_settings`: settings by markers.
* :mod:`~logbus.testing.pytest_simulation`: the fixture ``logbus_simulation`` and its options.
* :mod:`~logbus.testing.pytest_report`: brokers' logs and topics in the reports of failed tests.
* :mod:`~logbus.testing.inspector`: the client with which the kit looks at brokers.
* :mod:`~logbus.testing.topic_reader`: reads topics, and waits for records.
* :mod:`~logbus.testing.group_waits`: waits for groups.
* :mod:`~logbus.testing.hanging_transaction`: leaves transactions open.
* :mod:`~logbus.testing.record_comparison`: compares records with expected ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logbus.testing.broker import Broker
    from logbus.testing.cluster import Cluster
    from logbus.testing.errors import BrokerFailed
    from logbus.testing.local_cluster import LocalCluster

__all__ = ["Broker", "BrokerFailed", "Cluster", "LocalCluster"]

_LATER = {
    "Broker": "logbus.testing.broker",
    "BrokerFailed": "logbus.testing.errors",
    "Cluster": "logbus.testing.cluster",
    "LocalCluster": "logbus.testing.local_cluster",
}
"""Imported at first use: pytest loads the plugin for tests that have no broker, too."""


def __getattr__(name: str) -> object:
    if name in _LATER:
        from importlib import import_module

        from logbus.quick_imports import quick_imports

        with quick_imports():
            return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
