"""
Views of what the brokers have of topics: records and bytes, which no broker knows for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any

from attrs import frozen

from logbus.admin.cluster import BROKER_ID, require_broker
from logbus.admin.json_chunks import json_stream
from logbus.admin.json_schema import integer, object_schema
from logbus.admin.relay import live
from logbus.admin.routing import ViewRequest, ViewResponse, route
from logbus.admin.topics import CONTAINS, TOPIC_NAME, containing, page, page_of, paged
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.security.acl.acls import AclOperation, ResourceType

USAGE = object_schema(
    "What a broker has of a topic.",
    name=TOPIC_NAME,
    leads=integer("Partitions that it leads."),
    records=integer("Offsets between the first record and the next one, in the partitions that it leads."),
    size_bytes=integer("Bytes of all its replicas."),
)
PARTITIONS_A_ROW = 10
"""Replicas that cost as much to look at as a row costs to encode."""


@frozen
class TopicUsageViews:
    """Tells what this broker has of topics; the sum over all brokers is what the cluster has."""

    metadata: ClusterMetadata
    broker_id: int
    replicas: ReplicaManager

    @route(
        "GET",
        "/api/v1/brokers/{broker}/topics",
        "Records and bytes that a broker has of each topic",
        answer=page("topics, all of them by name, whether the broker has replicas of them or not", USAGE, TOPIC_NAME),
        parameters=paged(TOPIC_NAME, broker=BROKER_ID, **CONTAINS),
        rights="Topics on which there is no right to Describe are left out.",
        served_by=lambda self, call: live(self.metadata, call.path["broker"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def list(self, call: ViewRequest) -> ViewResponse:
        require_broker(call.path["broker"], self.broker_id)
        names = containing(self.metadata.topics, call.query["contains"])
        shown, after = page_of(names, call, call.access.filter(AclOperation.DESCRIBE, ResourceType.TOPIC))
        return json_stream({"items": lambda: self._usages(shown), "next": after})

    def _usages(self, names: Sequence[str]) -> Iterator[dict[str, Any] | None]:
        for name in names:
            topic = self.metadata.topic(name)
            leads = records = size_bytes = 0
            for number in range(len(topic.partitions) if topic is not None else 0):
                if number % PARTITIONS_A_ROW == PARTITIONS_A_ROW - 1:
                    yield None
                replica = self.replicas.find(name, number)
                if replica is None:
                    continue
                size_bytes += replica.log.size
                if replica.partition.is_leader:
                    leads += 1
                    records += replica.log.log_end_offset - replica.log.log_start_offset
            yield {"name": name, "leads": leads, "records": records, "size_bytes": size_bytes}
