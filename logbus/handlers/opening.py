"""
Clients that come before the broker knows the cluster: what they ask about it waits.

While another broker is the controller, a broker that starts hears from it on its listener, which clients can reach as
well. What they send to it before is answered as it would be anywhere: it leads nothing, it coordinates nothing. Only
who leads and coordinates cannot be told yet, and "nobody" would be wrong.
"""

from __future__ import annotations

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.handlers.routing import Answer, Handler
from logbus.net.context import RequestContext
from logbus.wire.connection import Request

#: FindCoordinator, DescribeConfigs, Metadata, DescribeCluster, DescribeTopicPartitions.
ABOUT_THE_CLUSTER = frozenset({3, 10, 32, 60, 75})


@define(eq=False)
class Opening:
    """
    Keeps questions about the cluster waiting until :meth:`open`.

    A connection that waits for an answer has nothing else served, so that each keeps one question here at most.
    """

    _waiting: dict[Deferred[None], None] | None = field(factory=dict, init=False)

    def wrap(self, handler: Handler) -> Handler:
        """The handler, for when we know."""

        def handle(context: RequestContext, request: Request) -> Answer:
            if self._waiting is None:
                return handler(context, request)
            waiting: Deferred[None] = Deferred(self._forget)
            self._waiting[waiting] = None
            return waiting.addCallback(lambda _: handler(context, request))

        return handle

    def open(self) -> None:
        """The cluster is known: answer."""
        waiting, self._waiting = self._waiting, None
        for one in waiting or ():
            one.callback(None)

    def _forget(self, waiting: Deferred[None]) -> None:
        if self._waiting is not None:
            self._waiting.pop(waiting, None)
