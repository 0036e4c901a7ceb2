"""Views of topics: list, describe, create and delete; and what other views say of topics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin import strict_json
from logbus.admin.authorization import HttpAccess, Right
from logbus.admin.change_terms import IN_QUERY, VALIDATE_ONLY, is_only_checked
from logbus.admin.json_schema import boolean, integer, mapping, nullable, object_schema, string
from logbus.admin.pagination import CONTAINS, containing, page, page_of, paged
from logbus.admin.problem_details import HttpProblem
from logbus.admin.routing import JSON, LOCATION, ViewRequest, ViewResponse, route
from logbus.cluster.cluster_metadata import ClusterMetadata, TopicImage
from logbus.cluster.topic_admin_forwarder import TopicAdminForwarder
from logbus.errors import ApiError, ErrorCode
from logbus.model import topic_name_problem
from logbus.security.acl.acls import CLUSTER_NAME, AclOperation, ResourceType

CHANGE_TIMEOUT_MS = 30_000
"""Time after which the client of a change is told that it is still running."""
MAX_INT = 2**31 - 1

TOPIC_NAME = string("Name of a topic: ASCII letters, digits, '.', '_' and '-'.", maxLength=249)
CONFIRM = string("The topic's name again, without which nothing is deleted.", maxLength=249)
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


def _shows_configs(access: HttpAccess, name: str) -> bool:
    return access.may(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name)
