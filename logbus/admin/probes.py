"""
Views of the health probes ``/healthz`` and ``/readyz``, and of the index page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from http import HTTPStatus
from typing import Any

from attrs import frozen

from logbus.admin import strict_json
from logbus.admin.json_schema import array, object_schema, string
from logbus.admin.routing import FOR_ALL, JSON, Router, ViewRequest, ViewResponse, route

READY = object_schema(
    "Whether clients should use this broker.",
    ready={"type": "boolean", "description": "Whether they should."},
    reasons=array("The reasons if not.", string("A sentence.")),
)
ALIVE = object_schema("The process is alive and its reactor runs.", status=string("'alive'.", enum=["alive"]))

HEALTH_PATHS = frozenset({b"/healthz", b"/readyz", b"/readyz/in-sync"})
"""Probes of orchestrators: answered even if other requests are not admitted."""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>logbus broker {broker}</title></head>
<body>
<h1>logbus broker {broker}</h1>
<ul>
{links}
</ul>
</body>
</html>
"""


def readiness(reasons: Sequence[str]) -> ViewResponse:
    """Return the response of a probe: 200, or 503 with the reasons, a sentence each."""
    status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
    return ViewResponse(status, JSON, strict_json.dumps({"ready": not reasons, "reasons": list(reasons)}))


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
        rights=FOR_ALL,
        errors=(HTTPStatus.SERVICE_UNAVAILABLE,),
    )
    def ready(self, call: ViewRequest) -> ViewResponse:
        return readiness(self.not_ready())


@frozen
class IndexView:
    """
    The page at ``/`` for browsers.

    :ivar mounted: first path segments of plugins' resources.
    """

    broker_id: int
    router: Router
    mounted: Callable[[], Sequence[str]]

    @route("GET", "/", "A page of links", content_types=("text/html; charset=utf-8",), rights=FOR_ALL)
    def index(self, call: ViewRequest) -> ViewResponse:
        links = [(r.path, r.summary) for r in self.router.routes if r.method == "GET" and not r.variables]
        links += [(f"/{path}/", "added by a plugin") for path in self.mounted()]
        items = "\n".join(
            f'<li><a href="{escape(path)}">{escape(path)}</a>: {escape(summary)}</li>'
            for path, summary in links
            if path != "/"
        )
        html = _PAGE.format(broker=self.broker_id, links=items)
        return ViewResponse(HTTPStatus.OK, "text/html; charset=utf-8", html.encode())
