"""
Delays requests about the cluster's metadata until a starting broker has received it.

A starting broker receives the metadata from the controller on its listener, so clients can connect before that. Most
of their requests are answered at once: the broker does not lead or coordinate anything yet. Requests for leaders and
coordinators must wait, since an empty answer would be wrong.
"""

from __future__ import annotations

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.handlers.request_router import Answer, Handler
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request


@define(eq=False)
class StartupGate:
    """
    Lets requests of APIs that are served with ``waits_for_metadata`` wait until :meth:`open`.

    While a connection waits for a response its other requests are not served, so each has at most one waiting here.
    """

    _waiting: dict[Deferred[None], None] | None = field(factory=dict, init=False)

    def wrap(self, handler: Handler) -> Handler:
        """Wrap a handler so that its requests wait."""

        def handle(context: RequestContext, request: Request) -> Answer:
            if self._waiting is None:
                return handler(context, request)
            waiting: Deferred[None] = Deferred(self._forget)
            self._waiting[waiting] = None
            return waiting.addCallback(lambda _: handler(context, request))

        return handle

    def open(self) -> None:
        """Serve the waiting requests, and delay no more: the metadata is there."""
        waiting, self._waiting = self._waiting, None
        for one in waiting or ():
            one.callback(None)

    def _forget(self, waiting: Deferred[None]) -> None:
        if self._waiting is not None:
            self._waiting.pop(waiting, None)
