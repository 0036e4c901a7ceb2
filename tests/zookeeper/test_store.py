"""The store on a real ZooKeeper: conformance, sessions that end, servers that go away."""

from __future__ import annotations

from logbus.metastore.operations import SessionState
from logbus.metastore.zookeeper_store import ZooKeeperStore
from tests.metastore.conformance import SharedStoreConformance
from tests.zookeeper.reactor_case import PumpedTestCase


class ZooKeeperStoreTests(SharedStoreConformance, PumpedTestCase):
    """What all stores do alike, below a chroot."""

    store: ZooKeeperStore

    def make_store(self) -> ZooKeeperStore:
        return self.opened()

    def make_other(self) -> ZooKeeperStore:
        return self.opened()

    def expire(self) -> None:
        credentials = self.store.credentials
        assert credentials is not None
        generation = self.store.generation
        self.zookeeper.expire(*credentials)
        self.wait_until(lambda: self.store.generation > generation and self.store.state is SessionState.CONNECTED)
