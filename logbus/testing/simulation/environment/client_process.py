"""Client processes that can be killed and started again, each on a host of its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.testing.simulation.environment.broker_node import World
from logbus.testing.simulation.environment.node_reactor import NodeReactor
from logbus.testing.simulation.workloads.cluster_client import ClusterClient


@define(eq=False)
class ClientProcess:
    """
    A client's process.

    :ivar host: its address; ``brokers``: its bootstrap brokers.
    :ivar main: its work, given a factory of clients of topics; it may end.
    :ivar failed: called with errors in it.
    """

    world: World
    host: str
    brokers: Mapping[int, tuple[str, int]]
    main: Callable[[Callable[[str], ClusterClient]], Coroutine[Any, Any, None]]
    failed: Callable[[Failure], object]
    lives: int = field(default=0, init=False)
    up: bool = field(default=False, init=False)
    _reactor: NodeReactor = field(init=False)

    def start(self) -> None:
        """Start it, if it does not run."""
        if self.up:
            return
        self.up = True
        self.lives += 1
        reactor = self._reactor = NodeReactor(self.world.clock, self.world.network, self.host)
        self.world.network.started(reactor)

        def view(topic: str) -> ClusterClient:
            return ClusterClient(reactor, dict(self.brokers), topic, self.world.generator())

        def failed(failure: Failure) -> None:
            # Errors of a dead process's coroutines when they are collected do not count.
            if not reactor.dead:
                self.failed(failure)

        Deferred.fromCoroutine(self.main(view)).addErrback(failed)

    def kill(self) -> bool:
        """End it at once; return whether it ran."""
        if not self.up:
            return False
        self.up = False
        self._reactor.dead = True
        self.world.network.ended(self._reactor, silently=False)
        return True
