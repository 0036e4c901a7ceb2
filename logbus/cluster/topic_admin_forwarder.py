"""
Topic administration on any broker, for the broker itself and its HTTP pages.

Where this broker is the controller it calls :class:`.TopicAdmin`; otherwise it forwards the equivalent Kafka request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from attrs import define

from logbus.cluster.controller.config_admin import ConfigAdmin
from logbus.cluster.controller.topic_admin import CreatedTopic, TopicAdmin
from logbus.cluster.controller.topic_plan import ConfigEdit, NewTopic, unknown
from logbus.cluster.forwarding_manager import ForwardingManager
from logbus.errors import ApiError, ConfigError, ErrorCode, error_of
from logbus.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from logbus.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from logbus.wire.schema import decode

R = TypeVar("R")

_TOPIC = 2
_SET, _DELETE = 0, 1
_OF_THE_TOPIC = 1


@define(eq=False)
class TopicAdminForwarder:
    """
    :ivar here: used when this broker is the controller; ``configs_here``: for configs.
    :ivar forwarder: used otherwise.
    """

    here: TopicAdmin
    configs_here: ConfigAdmin
    forwarder: ForwardingManager

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = 0
    ) -> list[CreatedTopic | ApiError]:
        """See :meth:`.TopicAdmin.create_topics`."""
        if not self.forwarder.is_needed:
            return await self.here.create_topics(topics, validate_only=validate_only, timeout_ms=timeout_ms)
        wanted = [_creatable(topic) for topic in topics]
        request = CreateTopicsRequest(topics=wanted, validate_only=validate_only, timeout_ms=_limited(timeout_ms))
        response = await self._ask(request, 7, CreateTopicsResponse, timeout_ms)
        outcomes: dict[str, CreatedTopic | ApiError] = {}
        for one in response.topics:
            if one.error_code:
                outcomes[one.name] = error_of(one.error_code, one.error_message)
                continue
            configs = {
                entry.name: entry.value or "" for entry in one.configs or () if entry.config_source == _OF_THE_TOPIC
            }
            outcomes[one.name] = CreatedTopic(
                one.name, UUID(bytes=one.topic_id), one.num_partitions, one.replication_factor, configs
            )
        return [outcomes[topic.name] for topic in topics]

    async def delete_topics(
        self, topics: Sequence[str | UUID], *, timeout_ms: int = 0
    ) -> list[tuple[str, UUID] | ApiError]:
        """See :meth:`.TopicAdmin.delete_topics`."""
        if not self.forwarder.is_needed:
            return await self.here.delete_topics(topics, timeout_ms=timeout_ms)
        wanted = [
            DeleteTopicState(topic_id=one.bytes) if isinstance(one, UUID) else DeleteTopicState(name=one)
            for one in topics
        ]
        request = DeleteTopicsRequest(topics=wanted, timeout_ms=_limited(timeout_ms))
        response = await self._ask(request, 6, DeleteTopicsResponse, timeout_ms)
        return [
            error_of(one.error_code, one.error_message)
            if one.error_code
            else (one.name or "", UUID(bytes=one.topic_id))
            for one in response.responses
        ]

    async def alter_topic_configs(
        self, edits: Mapping[str, ConfigEdit], *, validate_only: bool = False
    ) -> dict[str, ApiError | None]:
        """See :meth:`.ConfigAdmin.alter_topic_configs`; what an edit leaves as it is, others may change meanwhile."""
        if not self.forwarder.is_needed:
            return await self.configs_here.alter_topic_configs(edits, validate_only=validate_only)
        outcomes: dict[str, ApiError | None] = {}
        resources = []
        for name, edit in edits.items():
            try:
                changes = self._changes(name, edit)
            except ApiError as error:
                outcomes[name] = error
                continue
            outcomes[name] = None
            if changes:
                resources.append(
                    IncrementalAlterConfigsResource(resource_type=_TOPIC, resource_name=name, configs=changes)
                )
        if resources:
            request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
            response = await self._ask(request, 1, IncrementalAlterConfigsResponse)
            for one in response.responses:
                if one.error_code:
                    outcomes[one.resource_name] = error_of(one.error_code, one.error_message)
        return outcomes

    def _changes(self, name: str, edit: ConfigEdit) -> list[IncrementalAlterableConfig]:
        topic = self.forwarder.metadata.topic(name)
        if topic is None:
            raise unknown(name)
        now = topic.configs
        try:
            wanted = edit(now)
        except ConfigError as e:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(e)) from None
        changes = [
            IncrementalAlterableConfig(name=key, config_operation=_SET, value=value)
            for key, value in wanted.items()
            if key not in now or now[key] != value
        ]
        changes += [
            IncrementalAlterableConfig(name=key, config_operation=_DELETE, value=None)
            for key in now
            if key not in wanted
        ]
        return changes

    async def _ask(self, message: Any, version: int, response: type[R], timeout_ms: int = 0) -> R:
        body = await self.forwarder.send(message, version, timeout_ms=timeout_ms)
        return decode(response, version, body)[0]


def _creatable(topic: NewTopic) -> CreatableTopic:
    given = topic.assignment
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if given else topic.num_partitions,
        replication_factor=-1 if given else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas))
            for number, replicas in enumerate(given or ())
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _limited(timeout_ms: int) -> int:
    return timeout_ms if timeout_ms > 0 else 30_000
