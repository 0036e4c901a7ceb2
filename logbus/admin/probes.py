"""
Views of the health probes ``/healthz`` and ``/readyz``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

from attrs import frozen

from logbus.admin import strict_json
from logbus.admin.json_schema import array, object_schema, string
from logbus.admin.problem_details import RETRY_AFTER_SECONDS
from logbus.admin.routing import FOR_ALL, JSON, ViewRequest, ViewResponse, route

READY = object_schema(
    "Whether clients should use this broker.",
    ready={"type": "boolean", "description": "Whether they should."},
    reasons=array("The reasons if not.", string("A sentence.")),
)
ALIVE = object_schema("The process is alive and its reactor runs.", status=string("'alive'.", enum=["alive"]))

HEALTH_PATHS = frozenset({b"/healthz", b"/readyz", b"/readyz/in-sync"})
"""Probes of orchestrators: answered even if other requests are not admitted."""


def readiness(reasons: Sequence[str]) -> ViewResponse:
    """Return the response of a probe: 200, or 503 with the reasons, a sentence each."""
    status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if reasons else {}
    return ViewResponse(status, JSON, strict_json.dumps({"ready": not reasons, "reasons": list(reasons)}), headers)


@frozen
class ProbeViews:
    """
    Answers load balancers and orchestrators.

    :ivar not_ready: returns the reasons why clients should not use this broker now, a sentence each.
    """

    not_ready: Callable[[], Sequence[str]]

    @route("GET", "/healthz", "Whether the process is alive", answer=ALIVE, rights=FOR_ALL)
    def alive(self, call: ViewRequest) -> dict[str, Any]:
        return {"status": "alive"}

    @route(
        "GET",
        "/readyz",
        "Whether the broker serves clients: 200, or 503 with the reasons",
        answer=READY,
        other_answers={HTTPStatus.SERVICE_UNAVAILABLE: READY},
        rights=FOR_ALL,
    )
    def ready(self, call: ViewRequest) -> ViewResponse:
        return readiness(self.not_ready())
