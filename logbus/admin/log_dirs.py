"""
Views of the log directories of brokers.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin.authorization import HttpAccess, Right
from logbus.admin.cluster import BROKER_ID, require_broker
from logbus.admin.json_schema import array, boolean, integer, nullable, object_schema, string
from logbus.admin.kafka_requests import KafkaRequests
from logbus.admin.relay import live
from logbus.admin.routing import ViewRequest, route
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.errors import error_of
from logbus.security.acl.acls import AclOperation
from logbus.wire.messages.log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

LOG_DIRS = object_schema(
    "The log directories of a broker.",
    items=array(
        "By path.",
        object_schema(
            "A log directory.",
            path=string("Its path."),
            error=nullable(string("The name of Kafka's error; null: it is in use.")),
            partitions=integer("How many partitions it has."),
            size_bytes=integer("Bytes of their logs."),
            total_bytes=nullable(integer("Bytes of its volume; null: unknown.")),
            usable_bytes=nullable(integer("Bytes that are free there; null: unknown.")),
            cordoned=boolean("Whether new logs go elsewhere."),
        ),
    ),
)


@frozen
class LogDirViews:
    """Describes the log directories of a broker, which serves that itself."""

    metadata: ClusterMetadata
    broker_id: int
    requests: KafkaRequests

    @route(
        "GET",
        "/api/v1/brokers/{broker}/log-dirs",
        "The log directories of a broker",
        answer=LOG_DIRS,
        parameters={"broker": BROKER_ID},
        right=Right(AclOperation.DESCRIBE),
        served_by=lambda self, call: live(self.metadata, call.path["broker"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def list(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        require_broker(call.path["broker"], self.broker_id, self.metadata)
        return Deferred.fromCoroutine(self._list(call.access))

    async def _list(self, access: HttpAccess) -> dict[str, Any]:
        response: DescribeLogDirsResponse = await self.requests.send(access, DescribeLogDirsRequest(topics=None), 5)
        if response.error_code:
            raise error_of(response.error_code)
        rows = [
            {
                "path": one.log_dir,
                "error": error_of(one.error_code).code.name if one.error_code else None,
                "partitions": sum(len(topic.partitions) for topic in one.topics),
                "size_bytes": sum(log.partition_size for topic in one.topics for log in topic.partitions),
                "total_bytes": None if one.total_bytes < 0 else one.total_bytes,
                "usable_bytes": None if one.usable_bytes < 0 else one.usable_bytes,
                "cordoned": one.is_cordoned,
            }
            for one in response.results
        ]
        return {"items": sorted(rows, key=lambda row: str(row["path"]))}
