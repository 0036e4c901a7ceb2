"""
How the cluster stands: which partitions lack replicas or a leader, and whether this broker can be missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from attrs import define, frozen

from logbus.admin.pieces import streamed
from logbus.admin.problems import Refused
from logbus.admin.routing import Answer, Call, route
from logbus.admin.shapes import Shape, flag, nullable, record, rows, text, whole
from logbus.admin.topics import TOPIC_NAME
from logbus.admin.views import BROKER_ID
from logbus.cluster.metadata import ClusterMetadata, PartitionImage, TopicImage

UNDER_REPLICATED, UNDER_MIN_ISR, OFFLINE = "under_replicated", "under_min_isr", "offline"

MinIsr = Callable[[Mapping[str, str]], int]
"""``min.insync.replicas`` of a topic with these overrides."""

FAULTY: Shape = record(
    "A partition that lacks something.",
    topic=TOPIC_NAME,
    partition=whole("Number of the partition."),
    leader=nullable(whole("Number of the leading broker; null: the partition is offline.")),
    replicas=rows("Brokers that have it, the preferred leader first.", BROKER_ID),
    isr=rows("Those of them that are in sync.", BROKER_ID),
    faults=rows("What it lacks.", text("A fault.", enum=[UNDER_REPLICATED, UNDER_MIN_ISR, OFFLINE])),
)
FAULTS = record(
    "All partitions that lack something.",
    items=rows("By topic and number.", FAULTY),
    counts=record(
        "How many there are.",
        under_replicated=whole("Partitions with replicas that are not in sync."),
        under_min_isr=whole("Partitions with fewer in sync than min.insync.replicas: acks=all is refused."),
        offline=whole("Partitions without a leader."),
    ),
)
STOPPING = record("The broker stops.", broker=BROKER_ID)


def faults_of(image: PartitionImage, least: int) -> list[str]:
    """What a partition lacks; ``least`` is its topic's ``min.insync.replicas``."""
    found = []
    if len(image.isr) < len(image.replicas):
        found.append(UNDER_REPLICATED)
    if len(image.isr) < min(least, len(image.replicas)):
        found.append(UNDER_MIN_ISR)
    if image.leader < 0:
        found.append(OFFLINE)
    return found


@define(eq=False)
class Missed:
    """What would become of partitions without a broker: how many would have no leader, or too few replicas."""

    offline: int = 0
    under_min_isr: int = 0

    def __str__(self) -> str:
        return f"{self.offline} partitions would have no leader, and {self.under_min_isr} would refuse acks=all"


def without(broker_id: int, topics: Mapping[str, TopicImage], min_isr: MinIsr) -> Missed:
    """What would become of all partitions if a broker stopped now."""
    missed = Missed()
    for topic in topics.values():
        least = min_isr(topic.configs)
        for image in topic.partitions:
            if broker_id in image.isr:
                left = len(image.isr) - 1
                missed.offline += left == 0
                missed.under_min_isr += 0 < left < min(least, len(image.replicas)) <= len(image.isr)
    return missed


@frozen
class StandingViews:
    """
    The cluster's faults, and this broker's end.

    :ivar stop: ends the process in order; None: nobody here can, as with a broker in a test's process.
    """

    metadata: ClusterMetadata
    broker_id: int
    min_isr: MinIsr
    stop: Callable[[], Callable[[], object] | None]

    @route("GET", "/api/v1/cluster/faults", "Partitions that lack replicas or a leader", answer=FAULTS)
    def faults(self, call: Call) -> Answer:
        counts = dict.fromkeys((UNDER_REPLICATED, UNDER_MIN_ISR, OFFLINE), 0)
        # Filled while the rows are made, which are sent first.
        return streamed({"items": lambda: self._faulty(counts), "counts": counts})

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
        "Stop this very broker in order: its leaderships are handed over first",
        answer=STOPPING,
        body=record("How.", force=flag("Even if partitions lose their leader by it."), optional=("force",)),
        parameters={"broker": BROKER_ID},
        status=HTTPStatus.ACCEPTED,
        errors=(HTTPStatus.CONFLICT, HTTPStatus.NOT_IMPLEMENTED),
    )
    def shutdown(self, call: Call) -> dict[str, Any]:
        if call.path["broker"] != self.broker_id:
            raise Refused(
                HTTPStatus.CONFLICT,
                f"This is broker {self.broker_id}; a broker is stopped at its own admin listener.",
            )
        stop = self.stop()
        if stop is None:
            raise Refused(HTTPStatus.NOT_IMPLEMENTED, "This broker is part of another process, which must stop it.")
        missed = without(self.broker_id, self.metadata.topics, self.min_isr)
        if (missed.offline or missed.under_min_isr) and not call.body.get("force", False):
            raise Refused(HTTPStatus.CONFLICT, f'Without it {missed}; to stop it all the same, send {{"force": true}}.')
        stop()
        return {"broker": self.broker_id}
