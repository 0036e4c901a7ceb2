"""Routes of what brokers hold, and of what is around them: snapshots, time, disks."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred

from logbus.admin.json_schema import integer, number, object_schema
from logbus.admin.routing import ViewRequest, route
from logbus.testing.server.broker_routes import BROKER_ID
from logbus.testing.server.server_routes import FAILURES, TOKEN, ControlledBrokers

SNAPSHOT = object_schema("A snapshot.", id=integer("Its number."))
SNAPSHOT_ID = {"snapshot": integer("The snapshot's number.")}
ADVANCED = object_schema("Time to pass.", seconds=number("How long.", minimum=0.001, maximum=3_000_000_000))


@define(eq=False)
class StateRoutes:
    """Snapshots, time and disks."""

    controlled: ControlledBrokers

    @route(
        "POST",
        "/api/v1/snapshots",
        "Keep what the broker or the cluster holds now",
        answer=SNAPSHOT,
        status=HTTPStatus.CREATED,
        rights=f"{TOKEN} Brokers are ended for it, and started again.",
        errors=FAILURES,
    )
    def take(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        return self.controlled.change(self.controlled.brokers.snapshot).addCallback(lambda number: {"id": number})

    @route(
        "POST",
        "/api/v1/snapshots/{snapshot}/restore",
        "Have the broker or the cluster hold what a snapshot has, and nothing else",
        answer=SNAPSHOT,
        parameters=SNAPSHOT_ID,
        rights=f"{TOKEN} Connections are closed.",
        errors=(HTTPStatus.NOT_FOUND, *FAILURES),
    )
    def restore(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        number = call.path["snapshot"]
        done = self.controlled.change(lambda: self.controlled.brokers.restore(number))
        return done.addCallback(lambda _: {"id": number})

    @route(
        "DELETE",
        "/api/v1/snapshots/{snapshot}",
        "Forget a snapshot",
        parameters=SNAPSHOT_ID,
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        rights=TOKEN,
        errors=(HTTPStatus.NOT_FOUND,),
    )
    def forget(self, call: ViewRequest) -> Deferred[None]:
        return self.controlled.change(lambda: self.controlled.brokers.forget(call.path["snapshot"]))

    @route(
        "POST",
        "/api/v1/time/advance",
        "Let time pass for the brokers, without waiting",
        body=ADVANCED,
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        rights=f"{TOKEN} What is due by then happens: members expire, transactions abort, old segments are removed.",
        errors=FAILURES,
    )
    def advance(self, call: ViewRequest) -> Deferred[None]:
        return self.controlled.change(lambda: self.controlled.brokers.advance(call.body["seconds"]))

    @route(
        "POST",
        "/api/v1/brokers/{broker}/fill-disk",
        "Have a broker's disk refuse every write for lack of space",
        parameters=BROKER_ID,
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        rights=TOKEN,
        errors=(HTTPStatus.NOT_FOUND, *FAILURES),
    )
    def fill_disk(self, call: ViewRequest) -> Deferred[None]:
        return self.controlled.change(lambda: self.controlled.brokers.fill_disk(call.path["broker"]))

    @route(
        "POST",
        "/api/v1/brokers/{broker}/free-disk",
        "End a fill-disk",
        parameters=BROKER_ID,
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        rights=TOKEN,
        errors=(HTTPStatus.NOT_FOUND, *FAILURES),
    )
    def free_disk(self, call: ViewRequest) -> Deferred[None]:
        return self.controlled.change(lambda: self.controlled.brokers.free_disk(call.path["broker"]))
