"""
CreateTopics, DeleteTopics, CreatePartitions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Self, TypeVar
from uuid import UUID

from attrs import define

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.controller.topic_admin import CreatedTopic, TopicAdmin
from logbus.cluster.controller.topic_plan import NewPartitions, NewTopic
from logbus.cluster.images import TopicImage
from logbus.config import ConfigView, keys
from logbus.config.describe_configs import describe_topic
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import serves, task
from logbus.net.request_context import BROKER_ITSELF, RequestContext, quota_user
from logbus.quotas.client_quota_manager import ClientQuotaManager
from logbus.quotas.controller_mutation_quota import ControllerMutationQuota
from logbus.wire.connection import Request
from logbus.wire.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from logbus.wire.schema import ZERO_UUID

UNITS_TO_DESCRIBE = 100
"""Cost of describing all settings of a topic, in units of a time slice."""

T = TypeVar("T")


@define(eq=False)
class TopicHandlers:
    """
    Creates and deletes topics, and adds partitions.

    :param delete_enabled: ``delete.topic.enable``.
    :param quotas: of partitions that are created and deleted (KIP-599).
    """

    _topics: TopicAdmin
    _metadata: ClusterMetadata
    _config: ConfigView
    _delete_enabled: Callable[[], bool]
    _quotas: ClientQuotaManager

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        config = broker.config
        return cls(
            broker.topic_admin,
            broker.metadata,
            config,
            lambda: config.get(keys.DELETE_TOPIC_ENABLE),
            broker.client_quotas.controller_mutation,
        )

    def _quota(self, context: RequestContext, request: Request, strict_from: int) -> ControllerMutationQuota:
        quotas = None if context.principal == BROKER_ITSELF else self._quotas
        user = quota_user(context.principal)
        return ControllerMutationQuota(quotas, user, context.client_id, request.api_version >= strict_from)

    @serves(19, 2, 7, forwarded=True)
    @task
    async def create_topics(self, context: RequestContext, request: Request) -> CreateTopicsResponse:
        message: CreateTopicsRequest = request.message
        time_slice = context.time_slice(request)
        quota = self._quota(context, request, 6)
        duplicates = await time_slice.duplicates(topic.name for topic in message.topics)
        answers: dict[str, CreatableTopicResult] = {}
        wanted = []
        async for topic in time_slice.over(message.topics, 2):
            try:
                if topic.name in duplicates:
                    raise ApiError(ErrorCode.INVALID_REQUEST, f"the request names the topic {topic.name!r} twice")
                new = self._new_topic(topic)
                quota.take(self._partitions_of(new))
                wanted.append(new)
            except ApiError as e:
                answers[topic.name] = refused_topic(topic.name, e)
        results = await for_all(
            wanted,
            self._topics.create_topics(wanted, validate_only=message.validate_only, timeout_ms=message.timeout_ms),
        )
        settings: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}
        async for new, result in time_slice.over(zip(wanted, results, strict=True), 2):
            if isinstance(result, ApiError):
                answers[new.name] = refused_topic(new.name, result)
                continue
            overrides = tuple(sorted(result.configs.items()))
            if overrides not in settings:
                settings[overrides] = self._settings(result)
                if time_slice.used(UNITS_TO_DESCRIBE):
                    await time_slice.next()
            answers[new.name] = created_topic(new, result, settings[overrides])
        in_order = dict.fromkeys([topic.name async for topic in time_slice.over(message.topics)])
        return CreateTopicsResponse(
            throttle_time_ms=quota.throttle_time_ms,
            topics=[answers[name] async for name in time_slice.over(in_order)],
        )

    def _partitions_of(self, new: NewTopic) -> int:
        if new.assignment is not None:
            return len(new.assignment)
        default: int = self._config.get(keys.NUM_PARTITIONS)
        return default if new.num_partitions == -1 else new.num_partitions

    def _new_topic(self, topic: CreatableTopic) -> NewTopic:
        assignment = None
        if topic.assignments:
            if topic.num_partitions != -1 or topic.replication_factor != -1:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"{topic.name}: with a replica assignment, the number of partitions and the replication factor "
                    "must be -1",
                )
            by_index = {given.partition_index: tuple(given.broker_ids) for given in topic.assignments}
            if sorted(by_index) != list(range(len(topic.assignments))):
                raise ApiError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"{topic.name}: the assignment must name each partition from 0 on once, not {sorted(by_index)}",
                )
            assignment = tuple(by_index[index] for index in range(len(by_index)))
        configs: dict[str, str] = {}
        for config in topic.configs:
            if config.value is None:
                raise ApiError(ErrorCode.INVALID_CONFIG, f"{topic.name}: {config.name} needs a value")
            configs[config.name] = config.value
        return NewTopic(
            name=topic.name,
            num_partitions=topic.num_partitions,
            replication_factor=topic.replication_factor,
            assignment=assignment,
            configs=configs,
        )

    def _settings(self, created: CreatedTopic) -> list[CreatableTopicConfigs]:
        """The settings of a topic; topics with the same overrides share them."""
        return [
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in describe_topic(self._config, created.configs)
        ]

    @serves(20, 1, 6, forwarded=True)
    @task
    async def delete_topics(self, context: RequestContext, request: Request) -> DeleteTopicsResponse:
        message: DeleteTopicsRequest = request.message
        time_slice = context.time_slice(request)
        quota = self._quota(context, request, 5)
        wanted = message.topics or [DeleteTopicState(name=name) async for name in time_slice.over(message.topic_names)]
        asked: list[tuple[DeletableTopicResult, TopicImage | None]] = []
        async for state in time_slice.over(wanted, 2):
            answer = DeletableTopicResult(name=state.name, topic_id=state.topic_id)
            topic = None
            try:
                if not self._delete_enabled():
                    raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
                topic = self._found(state, answer)
            except ApiError as e:
                refuse(answer, e)
            asked.append((answer, topic))
        duplicates = await time_slice.duplicates((answer.name, answer.topic_id) for answer, _ in asked)
        places: list[str | UUID] = []
        found: list[DeletableTopicResult] = []
        async for state, (answer, topic) in time_slice.over(zip(wanted, asked, strict=True)):
            if answer.error_code:
                continue
            try:
                if (answer.name, answer.topic_id) in duplicates:
                    raise ApiError(ErrorCode.INVALID_REQUEST, f"the request names the topic {answer.name!r} twice")
                if topic is not None:
                    quota.take(len(topic.partitions))
                # An id may be one that is gone when it is this request's turn, and the name then another topic's.
                places.append(UUID(bytes=state.topic_id) if state.name is None else state.name)
                found.append(answer)
            except ApiError as e:
                refuse(answer, e)
        results = await for_all(places, self._topics.delete_topics(places, timeout_ms=message.timeout_ms))
        async for answer, result in time_slice.over(zip(found, results, strict=True)):
            if isinstance(result, ApiError):
                refuse(answer, result)
        answers = [answer async for answer, _ in time_slice.over(asked)]
        return DeleteTopicsResponse(throttle_time_ms=quota.throttle_time_ms, responses=answers)

    def _found(self, state: DeleteTopicState, answer: DeletableTopicResult) -> TopicImage | None:
        """
        The topic that is meant, whose name and id are in the answer then; None: there is none of that name.

        :raise ApiError: there is none of that id, or the request is wrong.
        """
        if state.topic_id != ZERO_UUID:
            if state.name is not None:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"{state.name}: name the topic or its id, not both")
            topic = self._metadata.topic_by_id(UUID(bytes=state.topic_id))
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {UUID(bytes=state.topic_id)}")
            answer.name = topic.name
            return topic
        if state.name is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, "neither a topic name nor a topic id is given")
        topic = self._metadata.topic(state.name)
        if topic is not None:
            answer.topic_id = topic.topic_id.bytes
        return topic

    @serves(37, 0, 3, forwarded=True)
    @task
    async def create_partitions(self, context: RequestContext, request: Request) -> CreatePartitionsResponse:
        message: CreatePartitionsRequest = request.message
        time_slice = context.time_slice(request)
        duplicates = await time_slice.duplicates(topic.name for topic in message.topics)
        quota, wanted, refused = self._quota(context, request, 3), [], []
        async for topic in time_slice.over(message.topics):
            if topic.name in duplicates:
                continue
            try:
                if (known := self._metadata.topic(topic.name)) is not None:
                    quota.take(topic.count - len(known.partitions))
                wanted.append(topic)
            except ApiError as e:
                refused.append(CreatePartitionsTopicResult(name=topic.name, error_code=e.code, error_message=e.message))
        results = await for_all(
            wanted,
            self._topics.create_partitions(
                [new_partitions(topic) async for topic in time_slice.over(wanted, 2)],
                validate_only=message.validate_only,
                timeout_ms=message.timeout_ms,
            ),
        )
        answers = [
            CreatePartitionsTopicResult(
                name=name,
                error_code=ErrorCode.INVALID_REQUEST,
                error_message=f"the request names the topic {name!r} twice",
            )
            async for name in time_slice.over(sorted(duplicates))
        ]
        async for topic, result in time_slice.over(zip(wanted, results, strict=True)):
            answer = CreatePartitionsTopicResult(name=topic.name)
            if isinstance(result, ApiError):
                answer.error_code, answer.error_message = result.code, result.message
            answers.append(answer)
        return CreatePartitionsResponse(throttle_time_ms=quota.throttle_time_ms, results=answers + refused)


async def for_all(wanted: Sequence[object], outcomes: Awaitable[list[T | ApiError]]) -> list[T | ApiError]:
    """The outcome for each of ``wanted``; an error of the whole request (NOT_CONTROLLER) counts for each."""
    try:
        return await outcomes
    except ApiError as e:
        return [e for _ in wanted]


def new_partitions(topic: CreatePartitionsTopic) -> NewPartitions:
    """The new partitions of a topic in a request."""
    assignment = None
    if topic.assignments is not None:
        assignment = tuple(tuple(given.broker_ids) for given in topic.assignments)
    return NewPartitions(topic.name, topic.count, assignment)


def created_topic(new: NewTopic, created: CreatedTopic, settings: list[CreatableTopicConfigs]) -> CreatableTopicResult:
    """The response for a topic that was created."""
    return CreatableTopicResult(
        name=new.name,
        topic_id=created.topic_id.bytes,
        num_partitions=created.num_partitions,
        replication_factor=created.replication_factor,
        configs=settings,
    )


def refused_topic(name: str, error: ApiError) -> CreatableTopicResult:
    """The response for a topic that was not created."""
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


def refuse(answer: DeletableTopicResult, error: ApiError) -> None:
    """Set the error of a topic that was not deleted."""
    answer.error_code, answer.error_message = error.code, error.message
