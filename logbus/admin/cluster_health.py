"""
Views of the cluster's health: partitions that lack replicas or a leader, and the shutdown of this broker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from attrs import define, frozen

from logbus.admin.authorization import Right
from logbus.admin.cluster import BROKER_ID, require_broker
from logbus.admin.json_chunks import json_stream
from logbus.admin.json_schema import JsonSchema, array, boolean, integer, nullable, object_schema, string
from logbus.admin.probes import READY, readiness
from logbus.admin.problem_details import HttpProblem
from logbus.admin.relay import live
from logbus.admin.routing import FOR_ALL, ViewRequest, ViewResponse, route
from logbus.admin.topics import TOPIC_NAME
from logbus.cluster.cluster_metadata import ClusterMetadata, PartitionImage, TopicImage
from logbus.security.acl.acls import AclOperation

UNDER_REPLICATED, UNDER_MIN_ISR, OFFLINE = "under_replicated", "under_min_isr", "offline"

MinIsr = Callable[[Mapping[str, str]], int]
"""Returns ``min.insync.replicas`` of a topic with these overrides."""

FAULTY_PARTITION: JsonSchema = object_schema(
    "A partition without a leader or with too few replicas in sync.",
    topic=TOPIC_NAME,
    partition=integer("Number of the partition."),
    leader=nullable(integer("Number of the leading broker; null: the partition is offline.")),
    replicas=array("Brokers that have it, the preferred leader first.", BROKER_ID),
    isr=array("The in-sync replicas.", BROKER_ID),
    faults=array("What is wrong.", string("A fault.", enum=[UNDER_REPLICATED, UNDER_MIN_ISR, OFFLINE])),
)
FAULTS = object_schema(
    "All faulty partitions.",
    items=array("By topic and number.", FAULTY_PARTITION),
    counts=object_schema(
        "Numbers of partitions.",
        under_replicated=integer("Partitions with replicas that are not in sync."),
        under_min_isr=integer("Partitions with fewer in sync than min.insync.replicas: acks=all is refused."),
        offline=integer("Partitions without a leader."),
    ),
)
STOPPING = object_schema("The broker stops.", broker=BROKER_ID)


def faults_of(image: PartitionImage, least: int) -> list[str]:
    """Return the faults of a partition; ``least`` is its topic's ``min.insync.replicas``."""
    found = []
    if len(image.isr) < len(image.replicas):
        found.append(UNDER_REPLICATED)
    if len(image.isr) < min(least, len(image.replicas)):
        found.append(UNDER_MIN_ISR)
    if image.leader < 0:
        found.append(OFFLINE)
    return found


@define(eq=False)
class ShutdownImpact:
    """The numbers of partitions that would lose their leader, or have too few replicas, without a broker."""

    offline: int = 0
    under_min_isr: int = 0

    def __str__(self) -> str:
        return f"{self.offline} partitions would have no leader, and {self.under_min_isr} would refuse acks=all"


def shutdown_impact(broker_id: int, topics: Mapping[str, TopicImage], min_isr: MinIsr) -> ShutdownImpact:
    """Return the impact on all partitions if a broker stopped now."""
    missed = ShutdownImpact()
    for topic in topics.values():
        least = min_isr(topic.configs)
        for image in topic.partitions:
            if broker_id in image.isr:
                left = len(image.isr) - 1
                missed.offline += left == 0
                missed.under_min_isr += 0 < left < min(least, len(image.replicas)) <= len(image.isr)
    return missed


def replicas_behind(broker_ids: Collection[int], topics: Mapping[str, TopicImage]) -> int:
    """Return how many replicas of these brokers are not in sync."""
    return sum(
        broker_id in broker_ids and broker_id not in image.isr
        for topic in topics.values()
        for image in topic.partitions
        # Mostly all are in sync, which takes no look at each.
        if len(image.isr) < len(image.replicas)
        for broker_id in image.replicas
    )


@frozen
class ClusterHealthViews:
    """
    Lists faulty partitions, tells orchestrators whether the next broker may be stopped, and shuts this broker down.

    :ivar not_ready: returns the reasons why clients should not use this broker now, a sentence each.
    :ivar stop: returns the function that stops the process in order; None if there is none, as in a test.
    """

    metadata: ClusterMetadata
    broker_id: int
    min_isr: MinIsr
    not_ready: Callable[[], Sequence[str]]
    stop: Callable[[], Callable[[], object] | None]

    @route(
        "GET",
        "/readyz/in-sync",
        "Whether the broker serves clients and all its replicas are in sync: 200, or 503 with the reasons",
        answer=READY,
        other_answers={HTTPStatus.SERVICE_UNAVAILABLE: READY},
        rights=FOR_ALL,
    )
    def in_sync(self, call: ViewRequest) -> ViewResponse:
        """Answer for all brokers of this host: a restart of the next one may wait for this."""
        reasons = list(self.not_ready())
        if behind := replicas_behind(self._of_this_host(), self.metadata.topics):
            reasons.append(f"replicas of this broker that are not in sync: {behind}")
        return readiness(reasons)

    def _of_this_host(self) -> Collection[int]:
        own = self.metadata.brokers.get(self.broker_id)
        hosts = {endpoint.host for endpoint in own.endpoints.values()} if own is not None else set()
        return {self.broker_id} | {
            image.broker_id
            for image in self.metadata.brokers.values()
            if any(endpoint.host in hosts for endpoint in image.endpoints.values())
        }

    @route(
        "GET",
        "/api/v1/cluster/faults",
        "Partitions that lack replicas or a leader",
        answer=FAULTS,
        right=Right(AclOperation.DESCRIBE),
    )
    def faults(self, call: ViewRequest) -> ViewResponse:
        counts = dict.fromkeys((UNDER_REPLICATED, UNDER_MIN_ISR, OFFLINE), 0)
        # Filled while the rows are made, which are sent before the counts.
        return json_stream({"items": lambda: self._faulty(counts), "counts": counts})

    def _faulty(self, counts: dict[str, int]) -> Iterator[dict[str, Any] | None]:
        for topic in sorted(self.metadata.topics.values(), key=lambda topic: topic.name):
            least = self.min_isr(topic.configs)
            for number, image in enumerate(list(topic.partitions)):
                found = faults_of(image, least)
                for fault in found:
                    counts[fault] += 1
                if not found:
                    yield None
                    continue
                yield {
                    "topic": topic.name,
                    "partition": number,
                    "leader": image.leader if image.leader >= 0 else None,
                    "replicas": list(image.replicas),
                    "isr": list(image.isr),
                    "faults": found,
                }

    @route(
        "POST",
        "/api/v1/brokers/{broker}/shutdown",
        "Stop a broker in order: its leaderships move to other brokers first",
        answer=STOPPING,
        body=object_schema("Options.", force=boolean("Even if partitions lose their leader."), optional=("force",)),
        parameters={"broker": BROKER_ID},
        status=HTTPStatus.ACCEPTED,
        right=Right(AclOperation.ALTER),
        served_by=lambda self, call: live(self.metadata, call.path["broker"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def shutdown(self, call: ViewRequest) -> dict[str, Any]:
        require_broker(call.path["broker"], self.broker_id, self.metadata)
        stop = self.stop()
        if stop is None:
            raise HttpProblem(HTTPStatus.NOT_IMPLEMENTED, "This broker is part of another process, which must stop it.")
        missed = shutdown_impact(self.broker_id, self.metadata.topics, self.min_isr)
        if (missed.offline or missed.under_min_isr) and not call.body.get("force", False):
            raise HttpProblem(
                HTTPStatus.CONFLICT, f'Without it {missed}; to stop it all the same, send {{"force": true}}.'
            )
        stop()
        return {"broker": self.broker_id}
