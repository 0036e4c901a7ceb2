"""
Views of what the brokers have: replicas, and of each topic records and bytes, which no broker knows for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from logbus.admin.authorization import Right
from logbus.admin.cluster import BROKER_ID, require_broker
from logbus.admin.json_chunks import json_stream
from logbus.admin.json_schema import integer, object_schema
from logbus.admin.pagination import CONTAINS, containing, page, page_of, paged
from logbus.admin.relay import live
from logbus.admin.routing import ViewRequest, ViewResponse, route
from logbus.admin.topics import TOPIC_NAME
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
BROKER_USAGE = object_schema(
    "What a broker has.",
    broker=BROKER_ID,
    replicas=integer("Its replicas that are in use."),
    leads=integer("Partitions that it leads."),
    under_replicated=integer("Partitions of these with replicas that are not in sync."),
    size_bytes=integer("Bytes of its replicas."),
)
REPLICAS_A_TURN = 500
"""Replicas looked at in a reactor turn; each costs a few µs."""
PARTITIONS_A_ROW = 10
"""Replicas that cost as much to look at as a row costs to encode."""


@frozen
class UsageViews:
    """Tells what this broker has; the sum over all brokers is what the cluster has."""

    metadata: ClusterMetadata
    broker_id: int
    replicas: ReplicaManager
    clock: IReactorTime

    @route(
        "GET",
        "/api/v1/brokers/{broker}/usage",
        "How many replicas a broker has, and how large they are",
        answer=BROKER_USAGE,
        parameters={"broker": BROKER_ID},
        right=Right(AclOperation.DESCRIBE),
        served_by=lambda self, call: live(self.metadata, call.path["broker"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def usage(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        require_broker(call.path["broker"], self.broker_id, self.metadata)
        return Deferred.fromCoroutine(self._usage())

    async def _usage(self) -> dict[str, Any]:
        replicas = list(self.replicas)
        leads = under_replicated = size_bytes = 0
        for looked_at, replica in enumerate(replicas, 1):
            if looked_at % REPLICAS_A_TURN == 0:
                await deferLater(self.clock, 0)
            size_bytes += replica.log.size
            if replica.partition.is_leader:
                leads += 1
                image = self.metadata.partition(replica.topic_partition)
                under_replicated += image is not None and len(image.isr) < len(image.replicas)
        return {
            "broker": self.broker_id,
            "replicas": len(replicas),
            "leads": leads,
            "under_replicated": under_replicated,
            "size_bytes": size_bytes,
        }

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
    def topics(self, call: ViewRequest) -> ViewResponse:
        require_broker(call.path["broker"], self.broker_id, self.metadata)
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
