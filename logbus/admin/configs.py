"""
Views of the configuration: shows topics and this broker with the source of each value, and changes topics' overrides.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin.authorization import HttpAccess, Right
from logbus.admin.cluster import BROKER_ID, require_broker
from logbus.admin.json_schema import array, boolean, mapping, nullable, object_schema, string
from logbus.admin.relay import live
from logbus.admin.routing import ViewRequest, route
from logbus.admin.topics import TOPIC_NAME, config_text, existing_topic
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.topic_admin_forwarder import TopicAdminForwarder
from logbus.config.config_view import ConfigView, Source
from logbus.config.describe_configs import ConfigEntry, describe_broker, describe_topic
from logbus.config.key_table import TOPIC_KEYS, unknown_topic_key
from logbus.security.acl.acls import AclOperation, ResourceType

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

    @route(
        "GET",
        "/api/v1/configs/topics/{topic}",
        "A topic's configuration",
        answer=CONFIGS,
        parameters={"topic": TOPIC_NAME},
        right=Right(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "topic"),
        errors=(HTTPStatus.NOT_FOUND,),
    )
    def topic(self, call: ViewRequest) -> dict[str, Any]:
        return self._topic(call.path["topic"])

    def _topic(self, name: str) -> dict[str, Any]:
        topic = existing_topic(self.metadata, name)
        return {"items": [_entry(entry) for entry in describe_topic(self.config, topic.configs)]}

    @route(
        "PATCH",
        "/api/v1/configs/topics/{topic}",
        "Change a topic's configuration",
        answer=CONFIGS,
        body=CHANGES,
        parameters={"topic": TOPIC_NAME},
        right=Right(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC, "topic"),
        rights="Needs AlterConfigs on the Topic; the answer is empty without DescribeConfigs.",
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def alter(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        return Deferred.fromCoroutine(self._alter(call.path["topic"], call.body, call.access))

    async def _alter(self, name: str, changes: Mapping[str, Any], access: HttpAccess) -> dict[str, Any]:
        existing_topic(self.metadata, name)
        # Read here, so that concurrent changes of different keys do not undo each other.
        outcomes = await self.topics.alter_topic_configs({name: lambda now: overrides_after(now, changes)})
        error = outcomes[name]
        if error is not None:
            raise error
        may_read = access.may(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name)
        return self._topic(name) if may_read else {"items": []}

    @route(
        "GET",
        "/api/v1/configs/brokers/{broker}",
        "A broker's configuration",
        answer=CONFIGS,
        parameters={"broker": BROKER_ID},
        right=Right(AclOperation.DESCRIBE_CONFIGS),
        served_by=lambda self, call: live(self.metadata, call.path["broker"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def broker(self, call: ViewRequest) -> dict[str, Any]:
        require_broker(call.path["broker"], self.broker_id)
        return {"items": [_entry(entry) for entry in describe_broker(self.config)]}


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
