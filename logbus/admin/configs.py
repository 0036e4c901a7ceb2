"""
Views of the configuration: shows topics and brokers with the source of each value, and changes what is dynamic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin import strict_json
from logbus.admin.authorization import Right
from logbus.admin.change_terms import IN_QUERY, controller_of_terms, is_only_checked, terms_of
from logbus.admin.cluster import BROKER_ID, no_live_broker, require_broker
from logbus.admin.entity_tags import CONDITION, ETAG, Precondition, entity_tag
from logbus.admin.json_schema import array, boolean, mapping, nullable, object_schema, string
from logbus.admin.kafka_requests import KafkaRequests
from logbus.admin.relay import live
from logbus.admin.routing import JSON, ViewRequest, ViewResponse, route
from logbus.admin.topics import TOPIC_NAME, config_text, existing_topic
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.topic_admin_forwarder import TopicAdminForwarder
from logbus.config.config_view import ConfigView, Source
from logbus.config.describe_configs import ConfigEntry, describe_broker, describe_cluster, describe_topic
from logbus.config.key_table import BROKER_KEYS, TOPIC_KEYS, broker_key, unknown_topic_key
from logbus.errors import error_of
from logbus.metastore.znodes import DEFAULT_ENTITY
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)

SOURCES: Mapping[Source, str] = MappingProxyType(
    {
        Source.TOPIC: "topic",
        Source.BROKER: "broker",
        Source.CLUSTER: "cluster",
        Source.STATIC: "static",
        Source.DEFAULT: "default",
    }
)
SOURCE = string("The source of the value.", enum=list(SOURCES.values()))
VALUE = nullable(string("The value; null: not set, or sensitive."))
ENTRY = object_schema(
    "A configuration key.",
    name=string("Its name."),
    value=VALUE,
    source=SOURCE,
    type=string("Its type.", enum=["boolean", "string", "int", "short", "long", "double", "list", "class", "password"]),
    read_only=boolean("Whether a change needs a restart."),
    sensitive=boolean("Whether its value is never shown."),
    documentation=string("A description."),
    synonyms=array(
        "All values set for it, the effective one first.",
        object_schema("A value.", name=string("Name."), value=VALUE, source=SOURCE),
    ),
)
CONFIGS = object_schema("A configuration.", items=array("All keys.", ENTRY))
CHANGES = mapping(
    "Values by key; null restores the broker's value; other keys do not change (RFC 7396).",
    {"type": ["string", "integer", "number", "boolean", "null"], "description": "A value.", "maxLength": 32_768},
    maxProperties=100,
)


CHANGED = object_schema(
    "What was changed, or would be.",
    items=array("The keys.", string("A key.")),
    validate_only=boolean("Whether nothing was changed."),
)
_BROKER = 4
"""A type of resource (Kafka: ConfigResource.Type)."""
_SET, _DELETE = 0, 1
"""Operations on a key (KIP-339)."""


def overrides_after(now: Mapping[str, str], changes: Mapping[str, Any]) -> dict[str, str]:
    """
    Return the overrides after a change.

    :param changes: JSON values by key; None removes the override.
    :raise ConfigError: a removed key does not exist.
    """
    wanted = dict(now)
    for name, value in changes.items():
        if value is not None:
            wanted[name] = config_text(value)
        elif wanted.pop(name, None) is None and name not in TOPIC_KEYS:
            raise unknown_topic_key(name)
    return wanted


@frozen
class ConfigViews:
    """The configuration of topics and of this broker."""

    metadata: ClusterMetadata
    topics: TopicAdminForwarder
    config: ConfigView
    broker_id: int
    requests: KafkaRequests

    @route(
        "GET",
        "/api/v1/configs/topics/{topic}",
        "A topic's configuration",
        answer=CONFIGS,
        parameters={"topic": TOPIC_NAME},
        answer_headers=ETAG,
        right=Right(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "topic"),
        errors=(HTTPStatus.NOT_FOUND,),
    )
    def topic(self, call: ViewRequest) -> ViewResponse:
        return self._tagged(call.path["topic"], self._topic(call.path["topic"]))

    def _tagged(self, name: str, told: Any) -> ViewResponse:
        topic = existing_topic(self.metadata, name)
        headers = {"ETag": entity_tag(topic.configs, str(topic.topic_id))}
        return ViewResponse(HTTPStatus.OK, JSON, strict_json.dumps(told), headers)

    def _topic(self, name: str) -> dict[str, Any]:
        topic = existing_topic(self.metadata, name)
        return {"items": [_entry(entry) for entry in describe_topic(self.config, topic.configs)]}

    @route(
        "PATCH",
        "/api/v1/configs/topics/{topic}",
        "Change a topic's configuration",
        answer=CONFIGS,
        body=CHANGES,
        parameters={"topic": TOPIC_NAME, **IN_QUERY},
        headers=CONDITION,
        answer_headers=ETAG,
        right=Right(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC, "topic"),
        rights="Needs AlterConfigs on the Topic; the answer is empty without DescribeConfigs.",
        # Where all changes are made, so that nothing comes between the comparison and the change.
        served_by=lambda self, call: live(self.metadata, self.metadata.controller_id),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.PRECONDITION_FAILED, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def alter(self, call: ViewRequest) -> Deferred[ViewResponse]:
        return Deferred.fromCoroutine(self._alter(call, call.path["topic"]))

    async def _alter(self, call: ViewRequest, name: str) -> ViewResponse:
        topic = existing_topic(self.metadata, name)
        condition = Precondition(f"The configuration of {name}", call.headers, TOPIC_KEYS, str(topic.topic_id))

        def edit(now: Mapping[str, str]) -> dict[str, str]:
            # Compared here, so that concurrent changes do not undo each other.
            condition.check(now)
            return overrides_after(now, call.body)

        validate_only = is_only_checked(call)
        outcomes = await self.topics.alter_topic_configs({name: edit}, validate_only=validate_only)
        error = outcomes[name]
        if error is not None:
            raise condition.refusal(error)
        may_read = call.access.may(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name)
        return self._tagged(name, self._topic(name) if may_read else {"items": []})

    @route(
        "PATCH",
        "/api/v1/configs/brokers/{broker}",
        "Change a broker's dynamic configuration",
        answer=CHANGED,
        body=CHANGES,
        parameters={"broker": BROKER_ID, **IN_QUERY},
        headers=CONDITION,
        right=Right(AclOperation.ALTER_CONFIGS),
        served_by=lambda self, call: controller_of_terms(self.metadata, call),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.PRECONDITION_FAILED, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def alter_broker(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        broker = call.path["broker"]
        if broker not in self.metadata.brokers:
            raise no_live_broker(broker, self.metadata)
        return Deferred.fromCoroutine(self._alter_brokers(call, str(broker)))

    @route(
        "PATCH",
        "/api/v1/configs/brokers",
        "Change the dynamic configuration of all brokers that have no value of their own",
        answer=CHANGED,
        body=CHANGES,
        parameters=IN_QUERY,
        headers=CONDITION,
        right=Right(AclOperation.ALTER_CONFIGS),
        served_by=lambda self, call: controller_of_terms(self.metadata, call),
        errors=(HTTPStatus.PRECONDITION_FAILED, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def alter_all(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        return Deferred.fromCoroutine(self._alter_brokers(call, ""))

    async def _alter_brokers(self, call: ViewRequest, name: str) -> dict[str, Any]:
        what = f"The configuration of {f'broker {name}' if name else 'all brokers'}"
        condition = Precondition(what, call.headers, {*BROKER_KEYS, *call.body}, members_of=_shown_overrides)
        changes = [
            IncrementalAlterableConfig(
                name=key,
                config_operation=_DELETE if value is None else _SET,
                value=None if value is None else config_text(value),
            )
            for key, value in call.body.items()
        ]
        resource = IncrementalAlterConfigsResource(resource_type=_BROKER, resource_name=name, configs=changes)
        validate_only = is_only_checked(call)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        terms = terms_of(call, condition)
        response: IncrementalAlterConfigsResponse = await self.requests.send(call.access, request, 1, terms)
        (result,) = response.responses
        if result.error_code:
            raise condition.refusal(error_of(result.error_code, result.error_message))
        return {"items": sorted(call.body), "validate_only": validate_only}

    def _broker_answer(self, entity: str, entries: Iterable[ConfigEntry]) -> ViewResponse:
        tag = entity_tag(_shown_overrides(self.metadata.broker_configs.get(entity, {})))
        told = {"items": [_entry(entry) for entry in entries]}
        return ViewResponse(HTTPStatus.OK, JSON, strict_json.dumps(told), {"ETag": tag})

    @route(
        "GET",
        "/api/v1/configs/brokers",
        "The dynamic configuration of all brokers that have no value of their own",
        answer=CONFIGS,
        answer_headers=ETAG,
        right=Right(AclOperation.DESCRIBE_CONFIGS),
    )
    def all_brokers(self, call: ViewRequest) -> ViewResponse:
        return self._broker_answer(DEFAULT_ENTITY, describe_cluster(self.config))

    @route(
        "GET",
        "/api/v1/configs/brokers/{broker}",
        "A broker's configuration",
        answer=CONFIGS,
        parameters={"broker": BROKER_ID},
        answer_headers=ETAG,
        right=Right(AclOperation.DESCRIBE_CONFIGS),
        served_by=lambda self, call: live(self.metadata, call.path["broker"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def broker(self, call: ViewRequest) -> ViewResponse:
        require_broker(call.path["broker"], self.broker_id, self.metadata)
        return self._broker_answer(str(self.broker_id), describe_broker(self.config))


def _shown_overrides(overrides: Mapping[str, str]) -> dict[str, str | None]:
    """Return overrides of brokers without the values that are never shown, of which not even a digest is told."""
    keys = {name: broker_key(name) for name in overrides}
    return {
        name: value if (key := keys[name]) is not None and not key.sensitive else None
        for name, value in overrides.items()
    }


def _entry(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": SOURCES[entry.source],
        "type": entry.type.name.lower(),
        "read_only": entry.read_only,
        "sensitive": entry.sensitive,
        "documentation": entry.documentation,
        "synonyms": [
            {"name": synonym.name, "value": synonym.value, "source": SOURCES[synonym.source]}
            for synonym in entry.synonyms
        ],
    }
