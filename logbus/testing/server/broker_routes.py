"""Routes of single brokers: stop, start, restart, kill, freeze, thaw."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar

from attrs import define
from twisted.internet.defer import Deferred

from logbus.admin.json_schema import array, integer, object_schema
from logbus.admin.routing import ViewRequest, route
from logbus.testing.server.server_routes import BROKER, FAILURES, TOKEN, ControlledBrokers

F = TypeVar("F", bound=Callable[..., Any])

BROKER_ID = {"broker": integer("The broker's number.")}


def _change(name: str, summary: str) -> Callable[[F], F]:
    return route(
        "POST",
        f"/api/v1/brokers/{{broker}}/{name}",
        summary,
        answer=BROKER,
        parameters=BROKER_ID,
        rights=TOKEN,
        errors=(HTTPStatus.NOT_FOUND, *FAILURES),
    )


@define(eq=False)
class BrokerRoutes:
    """The brokers, by their numbers, from 0 on."""

    controlled: ControlledBrokers

    @route(
        "GET",
        "/api/v1/brokers",
        "The brokers",
        answer=object_schema("The brokers.", items=array("By their numbers.", BROKER)),
        rights=TOKEN,
    )
    def all(self, call: ViewRequest) -> dict[str, Any]:
        return {"items": self.controlled.brokers.described()}

    @_change("start", "Start a broker that does not run, on its address and data")
    def start(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        return self._changed(self.controlled.brokers.start, call)

    @_change("stop", "Stop a broker in order")
    def stop(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        return self._changed(self.controlled.brokers.stop, call)

    @_change("restart", "Stop a broker in order, and start it")
    def restart(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        return self._changed(self.controlled.brokers.restart, call)

    @_change("kill", "End a broker as a crash does")
    def kill(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        return self._changed(self.controlled.brokers.kill, call)

    @_change("freeze", "Have a broker do nothing, with its connections open")
    def freeze(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        return self._changed(self.controlled.brokers.freeze, call)

    @_change("thaw", "Have a frozen broker go on")
    def thaw(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        return self._changed(self.controlled.brokers.thaw, call)

    def _changed(self, work: Callable[[int], object], call: ViewRequest) -> Deferred[dict[str, Any]]:
        number = call.path["broker"]
        done = self.controlled.change(lambda: work(number))
        return done.addCallback(lambda _: self.controlled.brokers.described()[number])
