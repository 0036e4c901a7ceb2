"""Views of partitions, with the replicas of the broker that answers."""

from __future__ import annotations

from http import HTTPStatus
from itertools import islice
from typing import Any

from attrs import frozen

from logbus.admin.cluster import BROKER_ID, no_live_broker
from logbus.admin.json_schema import array, integer, nullable, object_schema, string
from logbus.admin.pagination import page, paged
from logbus.admin.relay import live
from logbus.admin.routing import ViewRequest, route
from logbus.admin.topics import DESCRIBES_TOPIC, MAX_INT, TOPIC_NAME, existing_topic
from logbus.cluster.cluster_metadata import ClusterMetadata, PartitionImage, TopicImage
from logbus.cluster.replication.replica_manager import Replica, ReplicaManager
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

OFFSET = integer("An offset.")
PARTITION = object_schema(
    "A partition.",
    topic=TOPIC_NAME,
    partition=integer("Number of the partition."),
    leader=nullable(integer("Number of the leading broker; null: the partition is offline.")),
    leader_epoch=integer("Increases with every election."),
    replicas=array("Brokers that have it, the preferred leader first.", BROKER_ID),
    isr=array("The in-sync replicas.", BROKER_ID),
    local=nullable(
        object_schema(
            "The replica on the broker that answers, which is the leader if one partition is asked for; null: it has "
            "none, or it is offline.",
            log_start_offset=OFFSET,
            log_end_offset=integer("The offset of the next record."),
            high_watermark=integer("The high watermark: the first offset that readers do not see."),
            last_stable_offset=integer("The first offset that readers of committed records do not see."),
            size_bytes=integer("Bytes of its log."),
            log_dir=string("The log directory it is in."),
        )
    ),
)


@frozen
class PartitionViews:
    """Lists and describes partitions, with this broker's replicas."""

    metadata: ClusterMetadata
    replicas: ReplicaManager

    @route(
        "GET",
        "/api/v1/topics/{topic}/partitions",
        "A topic's partitions",
        answer=page("partitions", PARTITION, integer("Number of a partition.")),
        parameters=paged(
            integer("Number of a partition.", minimum=-1, maximum=MAX_INT),
            topic=TOPIC_NAME,
            broker={
                **integer("Id of the broker whose replicas to tell of; by default, of the one that answers."),
                "default": None,
            },
        ),
        right=DESCRIBES_TOPIC,
        served_by=lambda self, call: self._asked(call.query["broker"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def list(self, call: ViewRequest) -> dict[str, Any]:
        topic = existing_topic(self.metadata, call.path["topic"])
        after, limit = call.query["after"], call.query["limit"]
        first = 0 if after is None else after + 1
        shown = list(islice(topic.partitions, first, first + limit))
        more = first + limit < len(topic.partitions)
        return {
            "items": [self._partition(topic, number, image) for number, image in enumerate(shown, first)],
            "next": first + limit - 1 if more else None,
        }

    @route(
        "GET",
        "/api/v1/topics/{topic}/partitions/{partition}",
        "One partition, as its leader has it",
        answer=PARTITION,
        served_by=lambda self, call: live(self.metadata, self._leader(call.path["topic"], call.path["partition"])),
        parameters={"topic": TOPIC_NAME, "partition": integer("Its number.", minimum=0, maximum=MAX_INT)},
        right=DESCRIBES_TOPIC,
        errors=(HTTPStatus.NOT_FOUND,),
    )
    def one(self, call: ViewRequest) -> dict[str, Any]:
        topic, number = existing_topic(self.metadata, call.path["topic"]), call.path["partition"]
        if number >= len(topic.partitions):
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{topic.name} has the partitions 0 to {len(topic.partitions) - 1}, and no {number}.",
            )
        return self._partition(topic, number, topic.partitions[number])

    def _asked(self, broker: int | None) -> int | None:
        if broker is not None and broker not in self.metadata.brokers:
            raise no_live_broker(broker, self.metadata)
        return broker

    def _leader(self, topic: str, number: int) -> int:
        image = self.metadata.partition(TopicPartition(topic, number))
        return -1 if image is None else image.leader

    def _partition(self, topic: TopicImage, number: int, image: PartitionImage) -> dict[str, Any]:
        replica = self.replicas.find(topic.name, number)
        return {
            "topic": topic.name,
            "partition": number,
            "leader": image.leader if image.leader >= 0 else None,
            "leader_epoch": image.leader_epoch,
            "replicas": list(image.replicas),
            "isr": list(image.isr),
            "local": None if replica is None else _local(replica),
        }


def _local(replica: Replica) -> dict[str, Any]:
    log = replica.log
    return {
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "high_watermark": replica.high_watermark,
        "last_stable_offset": replica.last_stable_offset,
        "size_bytes": log.size,
        "log_dir": log.disk.root,
    }
