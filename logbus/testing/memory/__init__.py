"""
Brokers in memory, on a virtual clock: whole ones, with groups and transactions, for unit tests that take no time.

* ``memory_cluster``: MemoryCluster: brokers to be started, killed and cut off, and clients of them
* ``memory_broker``: MemoryBroker: one of them
* ``memory_network``: MemoryNetwork: connections that can be cut

No socket, thread or file is used, and a test waits for nothing: it says how much time passes.

.. code-block:: python

    class OrderTests(SynchronousTestCase):
        def setUp(self) -> None:
            self.brokers = MemoryCluster.started()
            self.addCleanup(self.brokers.close)

        def test_order(self) -> None:
            producer = Producer(self.brokers.client(), create_topics=True)
            sent = self.brokers.result(producer.send("orders", b"tea"))
            self.assertEqual(sent.offset, 0)
            self.brokers.result(producer.close())
"""

from __future__ import annotations

from logbus.testing.memory.memory_broker import MemoryBroker
from logbus.testing.memory.memory_cluster import MemoryCluster
from logbus.testing.memory.memory_network import MemoryNetwork

__all__ = ["MemoryBroker", "MemoryCluster", "MemoryNetwork"]
