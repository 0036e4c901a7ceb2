"""
Views of topics and partitions: list, describe, create and delete.

Lists are divided into pages, so that no answer blocks the reactor for long.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from http import HTTPStatus
from itertools import islice
from types import MappingProxyType
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin import strict_json
from logbus.admin.authorization import HttpAccess, Right
from logbus.admin.change_terms import IN_QUERY, VALIDATE_ONLY, is_only_checked
from logbus.admin.cluster import BROKER_ID, no_live_broker
from logbus.admin.json_schema import JsonSchema, array, boolean, integer, mapping, nullable, object_schema, string
from logbus.admin.problem_details import HttpProblem
from logbus.admin.relay import live
from logbus.admin.routing import JSON, LOCATION, ViewRequest, ViewResponse, route
from logbus.cluster.cluster_metadata import ClusterMetadata, PartitionImage, TopicImage
from logbus.cluster.replication.replica_manager import Replica, ReplicaManager
from logbus.cluster.topic_admin_forwarder import TopicAdminForwarder
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition, topic_name_problem
from logbus.security.acl.acls import CLUSTER_NAME, AclOperation, ResourceType

MAX_PAGE = 500
CHANGE_TIMEOUT_MS = 30_000
"""Time after which the client of a change is told that it is still running."""
MAX_INT = 2**31 - 1

TOPIC_NAME = string("Name of a topic: ASCII letters, digits, '.', '_' and '-'.", maxLength=249)
CONFIRM = string("The topic's name again, without which nothing is deleted.", maxLength=249)
LIMIT = integer("Maximum size of a page.", minimum=1, maximum=MAX_PAGE, default=MAX_PAGE)
OFFSET = integer("An offset.")
TOPIC = object_schema(
    "A topic.",
    name=TOPIC_NAME,
    id=string("The topic's id, a UUID."),
    partitions=integer("Number of partitions."),
    replication_factor=integer("Replicas of each partition."),
    internal=boolean("Whether only brokers write to it."),
    offline=integer("Partitions without a leader."),
    under_replicated=integer("Partitions with replicas that are not in sync."),
    cleanup_policy=nullable(
        string("What happens to old records: delete, compact or both; null without DescribeConfigs on it.")
    ),
    configs=nullable(
        mapping("Configuration overrides of this topic; null without DescribeConfigs on it.", string("A value."))
    ),
)
DESCRIBES_TOPIC = Right(AclOperation.DESCRIBE, ResourceType.TOPIC, "topic")
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


def page(what: str, items: JsonSchema, after: JsonSchema, **more: Any) -> JsonSchema:
    """Return the schema of a page of a list, with the members ``more``."""
    return object_schema(
        f"A page of {what}.",
        items=array("The page.", items, maxItems=MAX_PAGE),
        next=nullable({**after, "description": "The value of 'after' for the next page; null: this is the last page."}),
        **more,
    )


UNANSWERED = array(
    "Brokers that did not answer: what they have is missing.",
    object_schema("A broker.", broker=integer("Its number."), reason=string("Why it is missing, a sentence.")),
)
"""A member of pages of lists that each broker has a part of."""


def paged(after: JsonSchema, **more: JsonSchema) -> Mapping[str, JsonSchema]:
    """Return the parameters of a paged list, and ``more``."""
    return MappingProxyType({**more, "after": {**after, "default": None}, "limit": LIMIT})


CONTAINS: Mapping[str, JsonSchema] = MappingProxyType(
    {"contains": {**string("Text that names must contain, in any case.", maxLength=1000), "default": ""}}
)
"""The parameter of lists that are filtered by names."""


def containing(names: Iterable[str], text: str) -> Iterable[str]:
    """Return the names that contain a text, in any case."""
    needle = text.lower()
    return (name for name in names if needle in name.lower()) if needle else names


def page_of(
    names: Iterable[str], call: ViewRequest, is_visible: Callable[[str], bool] | None
) -> tuple[list[str], str | None]:
    """
    Return the names on the page that is asked for, and the value of ``next``.

    :param is_visible: whether a name may be told; None: all may.
    """
    after, limit = call.query["after"], call.query["limit"]
    rest = sorted(names if after is None else (name for name in names if name > after))
    if is_visible is not None:
        rest = list(islice(filter(is_visible, rest), limit + 1))
    shown = rest[:limit]
    return shown, shown[-1] if len(rest) > limit else None


def existing_topic(metadata: ClusterMetadata, name: str) -> TopicImage:
    """
    Return the topic with this name.

    :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION.
    """
    topic = metadata.topic(name)
    if topic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic_name_problem(name) or f"There is no topic named {name}."
        )
    return topic


def refuse_internal(internal: Collection[str], name: str, what: str) -> None:
    """
    Check that a topic is not one that only brokers write to.

    :param what: what is refused, as the predicate of a sentence about the topic.
    :raise ApiError: TOPIC_AUTHORIZATION_FAILED.
    """
    if name in internal:
        raise ApiError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            f"{name} is an internal topic, which {what}: it has the state of groups or transactions.",
        )


NEW_TOPIC = object_schema(
    "A topic to create.",
    name=TOPIC_NAME,
    partitions=integer("Number of partitions; -1: the broker's default.", minimum=-1, maximum=MAX_INT, default=-1),
    replication_factor=integer("Replicas of each; -1: the broker's default.", minimum=-1, maximum=32767, default=-1),
    configs=mapping(
        "Configuration overrides of the topic.",
        {"type": ["string", "integer", "number", "boolean"], "description": "A value.", "maxLength": 32_768},
        maxProperties=100,
    ),
    validate_only=VALIDATE_ONLY,
    optional=("partitions", "replication_factor", "configs", "validate_only"),
)


def config_text(value: str | int | float | bool) -> str:
    """Return a configured value in Kafka's text form."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


@frozen
class TopicViews:
    """
    Lists, describes, creates and deletes topics.

    :ivar internal: names of topics that only brokers write to.
    :ivar delete_enabled: ``delete.topic.enable``.
    :ivar cleanup_policy: returns ``cleanup.policy`` of a topic with these overrides.
    """

    metadata: ClusterMetadata
    topics: TopicAdminForwarder
    internal: Collection[str]
    delete_enabled: Callable[[], bool]
    cleanup_policy: Callable[[Mapping[str, str]], str]

    @route(
        "GET",
        "/api/v1/topics",
        "Topics, by name",
        answer=page("topics", TOPIC, TOPIC_NAME),
        parameters=paged(
            TOPIC_NAME,
            **CONTAINS,
            internal={
                **string("false: without those to which only brokers write.", enum=["true", "false"]),
                "default": "true",
            },
        ),
        rights="Topics on which there is no right to Describe are left out.",
    )
    def list(self, call: ViewRequest) -> dict[str, Any]:
        access = call.access
        names = containing(self.metadata.topics, call.query["contains"])
        if call.query["internal"] == "false":
            names = (name for name in names if name not in self.internal)
        shown, after = page_of(names, call, access.filter(AclOperation.DESCRIBE, ResourceType.TOPIC))
        return {"items": [self._topic(self.metadata.topics[name], access) for name in shown], "next": after}

    def _topic(self, topic: TopicImage, access: HttpAccess) -> dict[str, Any]:
        shows_configs = _shows_configs(access, topic.name)
        return {
            "name": topic.name,
            "id": str(topic.topic_id),
            "partitions": len(topic.partitions),
            "replication_factor": len(topic.partitions[0].replicas) if topic.partitions else 0,
            "internal": topic.name in self.internal,
            "offline": sum(image.leader < 0 for image in topic.partitions),
            "under_replicated": sum(len(image.isr) < len(image.replicas) for image in topic.partitions),
            "cleanup_policy": self.cleanup_policy(topic.configs) if shows_configs else None,
            "configs": dict(topic.configs) if shows_configs else None,
        }

    @route(
        "GET",
        "/api/v1/topics/{topic}",
        "One topic",
        answer=TOPIC,
        parameters={"topic": TOPIC_NAME},
        right=DESCRIBES_TOPIC,
        errors=(HTTPStatus.NOT_FOUND,),
    )
    def one(self, call: ViewRequest) -> dict[str, Any]:
        return self._topic(existing_topic(self.metadata, call.path["topic"]), call.access)

    @route(
        "POST",
        "/api/v1/topics",
        "Create a topic, or say (200) what it would be; its id is made of zeros then",
        answer=TOPIC,
        other_answers={HTTPStatus.OK: TOPIC},
        body=NEW_TOPIC,
        status=HTTPStatus.CREATED,
        answer_headers=LOCATION,
        rights="Needs Create on the Cluster or the Topic.",
        errors=(HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def create(self, call: ViewRequest) -> Deferred[ViewResponse]:
        access, name = call.access, call.body["name"]
        if not access.may(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
            access.require(AclOperation.CREATE, ResourceType.TOPIC, name)
        else:
            access.note_allowed(AclOperation.CREATE, ResourceType.TOPIC, name)
        return Deferred.fromCoroutine(self._created(call.body, access))

    async def _created(self, body: Mapping[str, Any], access: HttpAccess) -> ViewResponse:
        told = await self._create(body, access)
        if body.get("validate_only", False):
            return ViewResponse(HTTPStatus.OK, JSON, strict_json.dumps(told))
        headers = {"Location": f"/api/v1/topics/{told['name']}"}
        return ViewResponse(HTTPStatus.CREATED, JSON, strict_json.dumps(told), headers)

    async def _create(self, body: Mapping[str, Any], access: HttpAccess) -> dict[str, Any]:
        from logbus.cluster.controller.topic_plan import NewTopic

        new = NewTopic(
            name=body["name"],
            num_partitions=body.get("partitions", -1),
            replication_factor=body.get("replication_factor", -1),
            configs={name: config_text(value) for name, value in body.get("configs", {}).items()},
        )
        validate_only = body.get("validate_only", False)
        (result,) = await self.topics.create_topics([new], validate_only=validate_only, timeout_ms=CHANGE_TIMEOUT_MS)
        if isinstance(result, ApiError):
            raise result
        topic = None if validate_only else self.metadata.topic(new.name)
        if topic is not None:
            return self._topic(topic, access)
        # Not created, or deleted again in between.
        shows_configs = _shows_configs(access, new.name)
        return {
            "name": new.name,
            "id": str(result.topic_id),
            "partitions": result.num_partitions,
            "replication_factor": result.replication_factor,
            "internal": False,
            "offline": 0,
            "under_replicated": 0,
            "cleanup_policy": self.cleanup_policy(result.configs) if shows_configs else None,
            "configs": dict(result.configs) if shows_configs else None,
        }

    @route(
        "DELETE",
        "/api/v1/topics/{topic}",
        "Delete a topic and all its records",
        parameters={"topic": TOPIC_NAME, "confirm": CONFIRM, **IN_QUERY},
        right=Right(AclOperation.DELETE, ResourceType.TOPIC, "topic"),
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        errors=(HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def delete(self, call: ViewRequest) -> Deferred[None]:
        name = call.path["topic"]
        if call.query["confirm"] != name:
            raise HttpProblem(
                HTTPStatus.BAD_REQUEST, f"This deletes {name} with all its records; to confirm, add ?confirm={name}."
            )
        return Deferred.fromCoroutine(self._delete(name, validate_only=is_only_checked(call)))

    async def _delete(self, name: str, *, validate_only: bool) -> None:
        topic = existing_topic(self.metadata, name)
        refuse_internal(self.internal, name, "is not deleted")
        if not self.delete_enabled():
            raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "Topics cannot be deleted: delete.topic.enable is false.")
        if validate_only:
            return
        (result,) = await self.topics.delete_topics([topic.topic_id], timeout_ms=CHANGE_TIMEOUT_MS)
        if isinstance(result, ApiError):
            raise result


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


def _shows_configs(access: HttpAccess, name: str) -> bool:
    return access.may(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name)


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
