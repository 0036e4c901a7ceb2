"""The table of routes of the control interface, and its OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define

from logbus.admin.openapi import document
from logbus.admin.routing import Router, ViewRequest, route
from logbus.testing.server.broker_routes import BrokerRoutes
from logbus.testing.server.fault_routes import FaultRoutes
from logbus.testing.server.server_routes import TOKEN, ControlledBrokers, ServerRoutes
from logbus.testing.server.state_routes import StateRoutes
from logbus.testing.server.topic_routes import TopicRoutes
from logbus.testing.server.trouble_routes import TroubleRoutes


@define(eq=False)
class OpenApiRoute:
    """Serves the document of the table of routes."""

    router: Router

    @route(
        "GET",
        "/api/v1/openapi.json",
        "This interface, as an OpenAPI document",
        answer={"type": "object"},
        rights=TOKEN,
    )
    def openapi(self, call: ViewRequest) -> dict[str, Any]:
        return control_document(self.router)


def control_router(
    controlled: ControlledBrokers,
    reactor: Any,
    described: Callable[[], Mapping[str, Any]],
    end: Callable[[], object],
) -> Router:
    """
    Return the table of all routes.

    :param described: returns the addresses.
    :param end: ends the server, once the answer is sent.
    """
    router = Router()
    server = ServerRoutes(controlled, described, end)
    views = [server, BrokerRoutes(controlled), TopicRoutes(controlled, reactor), FaultRoutes(controlled, reactor)]
    router.add([*views, StateRoutes(controlled), TroubleRoutes(controlled), OpenApiRoute(router)])
    return router


def control_document(router: Router) -> dict[str, Any]:
    """Return the OpenAPI document of the control interface."""
    return document(router, title="logbus test-server", description="Controls brokers for tests.", login="token")
