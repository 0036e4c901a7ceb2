"""
Several whole brokers in memory (:mod:`logbus.testing.memory`), whose clients may also speak the protocol by hand.

.. code-block:: python

    class SomeTests(ClusterCase):
        brokers = 3

        def test_something(self) -> None:
            self.cluster[1].create("t", 3)           # by way of any broker
            self.cluster.kill(0)                     # as by SIGKILL; its session has expired
            self.cluster.settle(5)                   # seconds pass
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from attrs import define
from twisted.trial.unittest import SynchronousTestCase

from logbus.testing.memory.memory_cluster import MemoryCluster
from logbus.testing.memory.memory_network import PORT, host_of
from tests.handlers.kit import MemoryBroker

__all__ = ["PORT", "ClusterCase", "Several", "host_of"]


@define(eq=False)
class Several(MemoryCluster):
    """A cluster of brokers that tests of the protocol connect to."""

    def __getitem__(self, broker_id: int) -> MemoryBroker:
        return cast(MemoryBroker, super().__getitem__(broker_id))

    def boot(self, broker_id: int, *, wait: bool = True, **config: str) -> MemoryBroker:
        return cast(MemoryBroker, super().boot(broker_id, wait=wait, **config))

    def _made(self, **how: Any) -> MemoryBroker:
        return MemoryBroker(**how)

    def now(self, answer: Any, seconds: float = 5.0) -> Any:
        """The result of a Deferred that comes about in a few seconds."""
        return self.result(answer, seconds)


class ClusterCase(SynchronousTestCase):
    """Some brokers that run; broker 0 is the controller."""

    brokers: int = 3
    config: Mapping[str, str] = {}

    def setUp(self) -> None:
        self.cluster = Several(self.config)
        self.addCleanup(self.cluster.close)
        for broker_id in range(self.brokers):
            self.cluster.boot(broker_id)
        self.cluster.settle()

    def leaders(self, topic: str, broker_id: int = 0) -> Sequence[int]:
        """Who leads a topic's partitions, as a broker knows it."""
        image = self.cluster.metadata(broker_id).topic(topic)
        assert image is not None
        return [partition.leader for partition in image.partitions]
