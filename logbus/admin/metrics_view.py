"""
The view of ``/metrics``: renders the registry for Prometheus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin.authorization import Right
from logbus.admin.routing import PendingResponse, ViewRequest, ViewResponse, route
from logbus.exposition import OPENMETRICS, TEXT, render, wants_openmetrics
from logbus.metrics import Family
from logbus.security.acl.acls import AclOperation

Combine = Callable[[Iterable[Family]], Deferred[Iterable[Family]]]


@frozen
class MetricsView:
    """
    Serves ``/metrics``.

    :ivar families: returns the current families; called once per scrape, consumed while the answer is sent.
    :ivar combine: returns what makes these families those of several brokers that are run as one, if there are others.
    """

    families: Callable[[], Iterable[Family]]
    combine: Callable[[], Combine | None] = lambda: None

    @route(
        "GET",
        "/metrics",
        "Metrics, for Prometheus",
        content_types=(TEXT, OPENMETRICS),
        right=Right(AclOperation.DESCRIBE),
        rights="Needs Describe on the Cluster, unless it is one of ``admin.public.paths``.",
    )
    def metrics(self, call: ViewRequest) -> PendingResponse:
        openmetrics = wants_openmetrics(",".join(call.headers.get("accept", ())))
        kind = OPENMETRICS if openmetrics else TEXT

        def answer(families: Iterable[Family]) -> ViewResponse:
            return ViewResponse(HTTPStatus.OK, kind, lambda: render(families, openmetrics), {"Vary": "Accept"})

        combine = self.combine()
        return answer(self.families()) if combine is None else combine(self.families()).addCallback(answer)
