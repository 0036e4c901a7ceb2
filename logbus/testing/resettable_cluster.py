"""Clusters that begin anew, or with a snapshot, on the same addresses."""

from __future__ import annotations

import os
import shutil
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NoReturn

from logbus.testing.closable import Closable
from logbus.testing.cluster_roles import B, ClusterRoles
from logbus.testing.errors import BrokerFailed, is_closed
from logbus.testing.inspected import Inspected
from logbus.testing.snapshots import ClusterSnapshot
from logbus.testing.store_view import StoreView

OF_BROKERS = ("faults", "requests", "advance", "fill_disk", "force_rebalance", "fence_producer", "kill", "cut_off")
"""What a cluster is asked for, and only its brokers have."""


class ResettableCluster(ClusterRoles[B], Inspected, Closable):
    """Base of the clusters: what becomes of their data and metadata."""

    _closed = False
    _pid: int
    _tree: Any = None

    @property
    def tree(self) -> StoreView:
        """
        The content of the metadata store.

        :raise BrokerFailed: the cluster was not started, or is closed.
        """
        self._require_started()
        found: StoreView = self._tree
        return found

    def refuse_nesting(self) -> None:
        if self.running:
            raise BrokerFailed("the cluster is already running; a with block of it cannot be nested in another")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name in OF_BROKERS:
                raise AttributeError(f"{name} is of each broker: cluster.brokers[0], cluster.leader(topic)")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def reset(self) -> None:
        """
        Begin anew on the same addresses: all brokers run, without data and metadata; all cuts have ended.

        :raise BrokerFailed: a broker did not start.
        """
        self._require_started("reset")
        self._kill_all()
        for broker in self.brokers:
            shutil.rmtree(broker.data_dir, ignore_errors=True)
        self._start_on(None)

    def restore(self, snapshot: ClusterSnapshot) -> None:
        """
        Have the data and the metadata of a snapshot in place of the cluster's own, on the same addresses. Partitions
        may have other leaders than they had.

        :raise BrokerFailed: the snapshot is closed, or of another number of brokers; a broker did not start.
        """
        if not isinstance(snapshot, ClusterSnapshot):
            raise TypeError(f"restore: {snapshot!r} is none: expected what {type(self).__name__}.snapshot() gives")
        snapshot.require(len(self.brokers))
        self._require_started("restore")
        self._kill_all()
        snapshot.write_to([broker.data_dir for broker in self.brokers])
        self._start_on(snapshot)

    def _require_started(self, what: str = "") -> None:
        if self._pid != os.getpid():
            maker = f"process {self._pid}, which forked this one"
            raise BrokerFailed(f"the cluster is of {maker}: here, only connect to it")
        if self._closed:
            raise is_closed(what, "the cluster")
        if self._tree is None:
            raise BrokerFailed(f"{what}{': ' if what else ''}the cluster was not started; start it first")

    def _require_open(self) -> None:
        self.refuse_nesting()
        if self._closed:
            raise is_closed("start", "the cluster")

    @abstractmethod
    def _kill_all(self) -> None:
        """Kill the brokers, of which nothing is wanted any more, and end all cuts."""

    @abstractmethod
    def _start_on(self, snapshot: ClusterSnapshot | None) -> None:
        """Start with what a snapshot has, or anew."""
