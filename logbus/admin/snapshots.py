"""
Views of the snapshots that backups copy.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin import strict_json
from logbus.admin.authorization import Right
from logbus.admin.cluster import BROKER_ID, require_broker
from logbus.admin.json_schema import array, integer, object_schema, string
from logbus.admin.problem_details import HttpProblem
from logbus.admin.relay import live
from logbus.admin.routing import JSON, LOCATION, ViewRequest, ViewResponse, route
from logbus.cluster.broker_snapshots import BrokerSnapshots
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.security.acl.acls import AclOperation
from logbus.storage.log_snapshots import KEPT_SECONDS, NoSnapshot, Snapshot, SnapshotExists

SNAPSHOT = object_schema(
    "A snapshot of a broker's files.",
    name=string("Its name."),
    directories=array(
        "Where it is on the broker's machine: a directory in each log directory, with a manifest and a directory for "
        "each log; the first has the cluster's metadata, too.",
        string("A path."),
    ),
    logs=integer("How many logs it has."),
)
SNAPSHOTS = object_schema("The snapshots of a broker.", items=array("There is one at most.", SNAPSHOT))
KEPT = object_schema(
    "How long a snapshot is kept.",
    kept_seconds={
        **integer("Seconds from now after which it is removed if nobody renews it.", minimum=1, maximum=86400),
        "default": KEPT_SECONDS,
    },
    optional=("kept_seconds",),
)
NAME = string("A snapshot's name.", maxLength=100)
ERRORS = (HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)


@frozen
class SnapshotViews:
    """Makes, renews and removes snapshots of brokers, each by itself."""

    metadata: ClusterMetadata
    broker_id: int
    snapshots: BrokerSnapshots

    @route(
        "GET",
        "/api/v1/brokers/{broker}/snapshots",
        "The snapshots of a broker",
        answer=SNAPSHOTS,
        parameters={"broker": BROKER_ID},
        right=Right(AclOperation.DESCRIBE),
        served_by=lambda self, call: live(self.metadata, call.path["broker"]),
        errors=ERRORS,
    )
    def list(self, call: ViewRequest) -> dict[str, Any]:
        require_broker(call.path["broker"], self.broker_id, self.metadata)
        current = self.snapshots.current
        return {"items": [] if current is None else [_shown(current)]}

    @route(
        "POST",
        "/api/v1/brokers/{broker}/snapshots",
        "Make a snapshot of a broker's files, for a backup",
        answer=SNAPSHOT,
        status=HTTPStatus.CREATED,
        answer_headers=LOCATION,
        body=KEPT,
        parameters={"broker": BROKER_ID},
        right=Right(AclOperation.ALTER),
        served_by=lambda self, call: live(self.metadata, call.path["broker"]),
        errors=(HTTPStatus.CONFLICT, *ERRORS),
    )
    def make(self, call: ViewRequest) -> Deferred[ViewResponse]:
        require_broker(call.path["broker"], self.broker_id, self.metadata)
        return Deferred.fromCoroutine(self._make(call.body.get("kept_seconds", KEPT_SECONDS)))

    async def _make(self, kept_seconds: float) -> ViewResponse:
        try:
            made = await self.snapshots.make(kept_seconds)
        except SnapshotExists as e:
            raise HttpProblem(HTTPStatus.CONFLICT, f"On broker {self.broker_id}, {e}. {self._way_out()}") from None
        location = f"/api/v1/brokers/{self.broker_id}/snapshots/{made.name}"
        return ViewResponse(HTTPStatus.CREATED, JSON, strict_json.dumps(_shown(made)), {"Location": location})

    def _way_out(self) -> str:
        made = self.snapshots.current
        if made is None:
            return "Wait until it is removed."
        return (
            "Wait for the backup that made it. If that was killed, the snapshot goes by itself (after ten minutes "
            f"with logbus backup), or at once by DELETE /api/v1/brokers/{self.broker_id}/snapshots/{made.name}."
        )

    @route(
        "PUT",
        "/api/v1/brokers/{broker}/snapshots/{name}",
        "Keep a snapshot for another while",
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        body=KEPT,
        parameters={"broker": BROKER_ID, "name": NAME},
        right=Right(AclOperation.ALTER),
        served_by=lambda self, call: live(self.metadata, call.path["broker"]),
        errors=ERRORS,
    )
    def renew(self, call: ViewRequest) -> None:
        require_broker(call.path["broker"], self.broker_id, self.metadata)
        try:
            self.snapshots.renew(call.path["name"], call.body.get("kept_seconds", KEPT_SECONDS))
        except NoSnapshot as e:
            raise HttpProblem(HTTPStatus.NOT_FOUND, f"On broker {self.broker_id}, {e}.") from None

    @route(
        "DELETE",
        "/api/v1/brokers/{broker}/snapshots/{name}",
        "Remove a snapshot",
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        parameters={"broker": BROKER_ID, "name": NAME},
        right=Right(AclOperation.ALTER),
        served_by=lambda self, call: live(self.metadata, call.path["broker"]),
        errors=ERRORS,
    )
    def delete(self, call: ViewRequest) -> None:
        require_broker(call.path["broker"], self.broker_id, self.metadata)
        try:
            self.snapshots.release(call.path["name"])
        except NoSnapshot as e:
            raise HttpProblem(HTTPStatus.NOT_FOUND, f"On broker {self.broker_id}, {e}.") from None


def _shown(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "name": snapshot.name,
        "directories": [*snapshot.directories],
        "logs": snapshot.logs,
    }
