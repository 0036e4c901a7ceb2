"""
Views of the cluster and its brokers.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from attrs import frozen

import logbus
from logbus.admin.authorization import Right
from logbus.admin.json_schema import array, boolean, integer, mapping, nullable, object_schema, string
from logbus.admin.problem_details import HttpProblem
from logbus.admin.routing import FOR_ALL, ViewRequest, route
from logbus.cluster.cluster_metadata import BrokerImage, ClusterMetadata
from logbus.security.acl.acls import AclOperation

BROKER_ID = integer("Number of a broker.", minimum=0, maximum=2**31 - 1)
MOST_NAMED = 20
"""Live brokers that are named where one is not there."""
CLUSTER = object_schema(
    "A cluster, as this broker knows it.",
    cluster_id=string("The cluster's id."),
    controller=nullable(integer("Number of the controller; null while there is none.")),
    broker=integer("Number of the broker that answers."),
    version=string("Its version."),
    brokers=integer("Live brokers."),
    topics=integer("Topics."),
    partitions=integer("Partitions of all topics."),
)
BROKER = object_schema(
    "A live broker.",
    id=BROKER_ID,
    rack=nullable(string("Its rack.")),
    epoch=integer("The broker epoch: increases with each registration."),
    controller=boolean("Whether it is the controller."),
    feature_level=integer("The inter-broker feature level; brokers use the lowest one."),
    endpoints=mapping(
        "Its addresses, by the name of the listener.",
        object_schema(
            "An address.",
            protocol=string("Name of the protocol."),
            host=string("Host."),
            port=integer("Port; 0: none."),
        ),
    ),
)


def no_live_broker(wanted: int, metadata: ClusterMetadata) -> HttpProblem:
    """Return the error for a broker that is not alive, which names those that are."""
    alive = sorted(metadata.brokers)
    more = f" and {len(alive) - MOST_NAMED} more" if len(alive) > MOST_NAMED else ""
    told = f"{', '.join(map(str, alive[:MOST_NAMED]))}{more}" if alive else "none"
    return HttpProblem(HTTPStatus.NOT_FOUND, f"There is no live broker {wanted}; alive: {told}.")


def require_broker(wanted: int, broker_id: int, metadata: ClusterMetadata) -> None:
    """
    Check that a request concerns the broker that serves it.

    :raise HttpProblem: 404: it concerns one that is not alive.
    """
    if wanted != broker_id:
        raise no_live_broker(wanted, metadata)


@frozen
class ClusterViews:
    """Describes the cluster and its brokers."""

    metadata: ClusterMetadata
    broker_id: int

    @route("GET", "/api/v1/cluster", "The cluster", answer=CLUSTER, right=Right(AclOperation.DESCRIBE))
    def cluster(self, call: ViewRequest) -> dict[str, Any]:
        metadata = self.metadata
        return {
            "cluster_id": metadata.cluster_id,
            "controller": metadata.controller_id if metadata.controller_id >= 0 else None,
            "broker": self.broker_id,
            "version": logbus.__version__,
            "brokers": len(metadata.brokers),
            "topics": len(metadata.topics),
            "partitions": metadata.partition_count,
        }

    @route(
        "GET",
        "/api/v1/brokers",
        "Live brokers",
        answer=object_schema("All of them.", items=array("By number.", BROKER)),
        rights=FOR_ALL,
    )
    def brokers(self, call: ViewRequest) -> dict[str, Any]:
        return {"items": [self._broker(image) for _, image in sorted(self.metadata.brokers.items())]}

    @route(
        "GET",
        "/api/v1/brokers/{broker}",
        "One live broker",
        answer=BROKER,
        rights=FOR_ALL,
        parameters={"broker": BROKER_ID},
        errors=(HTTPStatus.NOT_FOUND,),
    )
    def broker(self, call: ViewRequest) -> dict[str, Any]:
        image = self.metadata.brokers.get(call.path["broker"])
        if image is None:
            raise no_live_broker(call.path["broker"], self.metadata)
        return self._broker(image)

    def _broker(self, image: BrokerImage) -> dict[str, Any]:
        return {
            "id": image.broker_id,
            "rack": image.rack,
            "epoch": image.epoch,
            "controller": image.broker_id == self.metadata.controller_id,
            "feature_level": image.feature_level,
            "endpoints": {
                name: {"protocol": endpoint.protocol, "host": endpoint.host, "port": endpoint.port}
                for name, endpoint in image.endpoints.items()
            },
        }
