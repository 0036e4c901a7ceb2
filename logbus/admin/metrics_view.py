"""
The view of ``/metrics``: renders the registry for Prometheus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus

from attrs import frozen

from logbus.admin.authorization import Right
from logbus.admin.routing import ViewRequest, ViewResponse, route
from logbus.exposition import OPENMETRICS, TEXT, render, wants_openmetrics
from logbus.metrics import Family
from logbus.security.acl.acls import AclOperation


@frozen
class MetricsView:
    """
    Serves ``/metrics``.

    :ivar families: returns the current families; called once per scrape, consumed while the answer is sent.
    """

    families: Callable[[], Iterable[Family]]

    @route(
        "GET",
        "/metrics",
        "Metrics, for Prometheus",
        content_types=(TEXT, OPENMETRICS),
        right=Right(AclOperation.DESCRIBE),
        rights="Needs Describe on the Cluster, unless it is one of ``admin.public.paths``.",
    )
    def metrics(self, call: ViewRequest) -> ViewResponse:
        openmetrics = wants_openmetrics(",".join(call.headers.get("accept", ())))
        kind = OPENMETRICS if openmetrics else TEXT
        return ViewResponse(HTTPStatus.OK, kind, lambda: render(self.families(), openmetrics), {"Vary": "Accept"})
