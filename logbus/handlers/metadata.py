"""
Metadata, DescribeCluster: topics with their leaders, and the brokers of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Self
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.cluster.cluster_metadata import BrokerImage, ClusterMetadata, PartitionImage, TopicImage
from logbus.cluster.controller.topic_plan import NewTopic
from logbus.cluster.topic_admin_forwarder import TopicAdminForwarder
from logbus.config import keys
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import Answer, serves
from logbus.handlers.topics import for_all
from logbus.model import INTERNAL_TOPICS, Endpoint, topic_name_problem
from logbus.net.request_context import RequestContext
from logbus.net.time_slices import TimeSlice
from logbus.records.file_slice import joined
from logbus.wire.codegen import ELEMENTS_PER_STEP
from logbus.wire.connection import Request
from logbus.wire.messages.metadata import (
    OPERATIONS_UNKNOWN,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from logbus.wire.schema import ZERO_UUID, decode, encode, incremental_encoder

BROKERS_ENDPOINT_TYPE, CONTROLLERS_ENDPOINT_TYPE = 1, 2
CREATE_TIMEOUT_MS = 30_000
# Bits by Kafka's numbers of operations (AclOperation), those that make sense for a topic and for a cluster.
TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
MAX_CACHED = 256
#: A response with more topics, or partitions, than these is made in time slices.
MANY_TOPICS, MANY_PARTITIONS = 100, 500
#: Partitions that are described in one step of a time slice, each of which is a unit of work.
PARTITIONS_AT_ONCE = 50
#: A response with more topics than these is cached only if it has all topics, to limit the memory of the cache.
MAX_CACHED_TOPICS = 32

CacheKey = tuple[int, str, tuple[str, ...] | None]


@define(eq=False)
class MetadataHandlers:
    """
    Serves Metadata.

    Encoded responses are cached until the metadata changes, since clients repeat a few requests all the time.

    :param auto_create: whether missing topics are created (``auto.create.topics.enable``).
    :param plan: the settings of such a topic.
    """

    _metadata: ClusterMetadata
    _topics: TopicAdminForwarder
    _internal_topics: frozenset[str]
    _auto_create: Callable[[], bool]
    _plan: Callable[[str], NewTopic] = NewTopic
    _cached: dict[CacheKey, bytes] = field(factory=dict, init=False)
    _cached_version: int = field(default=-1, init=False)
    _waiting: dict[CacheKey, list[Deferred[bytes]]] = field(factory=dict, init=False)

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(
            broker.metadata,
            broker.topics_anywhere,
            INTERNAL_TOPICS,
            lambda: broker.config.get(keys.AUTO_CREATE_TOPICS_ENABLE),
            broker.internal_topics.plan,
        )

    @serves(3, 0, 13, waits_for_metadata=True)
    def metadata(self, context: RequestContext, request: Request) -> Answer:
        message: MetadataRequest = request.message
        wanted, version = message.topics, request.api_version
        operations = message.include_topic_authorized_operations or message.include_cluster_authorized_operations
        if wanted is None or (version == 0 and not wanted):
            if not operations:
                return self._everything(context, version)
            answer: Answer = Deferred.fromCoroutine(self._all_topics(context, context.time_slice(request)))
        elif len(wanted) > MANY_TOPICS or ((operations or _by_id(wanted)) and self._has_many_partitions(wanted)):
            answer = Deferred.fromCoroutine(self._many(context, request))
        else:
            answer = self._metadata_for(context, message, context.time_slice(request), version)
        return self._with_operations(answer, message, version) if operations else answer

    def _with_operations(self, answer: Answer, message: MetadataRequest, version: int) -> Answer:
        """Add the authorized operations (KIP-430): all of them; a guard takes out those that are not allowed."""
        if isinstance(answer, Deferred):
            return answer.addCallback(self._add_operations, message)
        if isinstance(answer, bytes):
            answer = decode(MetadataResponse, version, answer)[0]
        return self._add_operations(answer, message)

    def _image(self, wanted: MetadataRequestTopic) -> TopicImage | None:
        if wanted.topic_id == ZERO_UUID:
            return self._metadata.topic(wanted.name or "")
        return self._metadata.topic_by_id(UUID(bytes=wanted.topic_id))

    def _has_many_partitions(self, wanted: Iterable[MetadataRequestTopic]) -> bool:
        return _are_many(image for one in wanted if (image := self._image(one)) is not None)

    def _everything(self, context: RequestContext, version: int) -> bytes | Deferred[bytes]:
        """The response with all topics."""
        if not _are_many(self._metadata.topics.values()):
            return self._encoded(context, version, None)
        return self._shared_response(context, (version, context.listener, None))

    def _shared_response(self, context: RequestContext, key: CacheKey) -> bytes | Deferred[bytes]:
        """A response that is made in time slices; concurrent requests share one while it is being made."""
        self._forget_outdated()
        encoded = self._cached.get(key)
        if encoded is not None:
            return encoded
        waiters = self._waiting.setdefault(key, [])
        # A request that is cancelled does not affect the others.
        waiter: Deferred[bytes] = Deferred(waiters.remove)
        waiters.append(waiter)
        if len(waiters) == 1:
            made = Deferred.fromCoroutine(self._encode_in_slices(context, key))
            made.addBoth(self._made, key)
        return waiter

    async def _encode_in_slices(self, context: RequestContext, key: CacheKey) -> bytes:
        as_of = self._metadata.version
        time_slice = TimeSlice(context.scheduler)
        if key[2] is None:
            response = await self._all_topics(context, time_slice)
        else:
            images = [(name, self._metadata.topic(name)) for name in key[2]]
            topics = [
                self._by_name(name) if image is None else await self._topic_in_slices(image, time_slice)
                for name, image in images
            ]
            response = self._response(context, topics)
        steps = incremental_encoder(MetadataResponse, key[0])(response)
        encoded = joined(await time_slice.finish(steps, ELEMENTS_PER_STEP))
        self._forget_outdated()
        if self._metadata.version == as_of:
            self._cached[key] = encoded
        return encoded

    def _made(self, encoded: bytes | Failure, key: CacheKey) -> None:
        for waiter in self._waiting.pop(key):
            if isinstance(encoded, Failure):
                waiter.errback(encoded)
            else:
                waiter.callback(encoded)

    async def _all_topics(self, context: RequestContext, time_slice: TimeSlice) -> MetadataResponse:
        known = list(self._metadata.topics.values())
        topics = [await self._topic_in_slices(topic, time_slice) async for topic in time_slice.over(known)]
        return self._response(context, topics)

    async def _many(self, context: RequestContext, request: Request) -> MetadataResponse:
        """The response to a request that names many topics."""
        message: MetadataRequest = request.message
        wanted = message.topics or []
        time_slice = context.time_slice(request)
        asked: dict[tuple[bytes, str | None], MetadataRequestTopic] = {}
        async for topic in time_slice.over(wanted):
            asked[topic.topic_id, topic.name] = topic
        if not _by_id(asked.values()) and message.allow_auto_topic_creation and self._auto_create():
            names = list(dict.fromkeys(topic.name or "" for topic in asked.values()))
            missing = [name async for name in time_slice.over(names) if self._metadata.topic(name) is None]
            if missing:
                return await self._create(context, names, missing, time_slice)
        topics = []
        async for topic in time_slice.over(asked.values(), 3):
            image = self._image(topic)
            if image is None:
                topics.append(self._described(topic, request.api_version))
            else:
                topics.append(await self._topic_in_slices(image, time_slice))
        return self._response(context, topics)

    def _add_operations(self, answer: MetadataResponse, message: MetadataRequest) -> MetadataResponse:
        if message.include_topic_authorized_operations:
            for topic in answer.topics:
                if not topic.error_code:
                    topic.topic_authorized_operations = TOPIC_OPERATIONS
        if message.include_cluster_authorized_operations:
            answer.cluster_authorized_operations = CLUSTER_OPERATIONS
        return answer

    def _metadata_for(
        self, context: RequestContext, message: MetadataRequest, time_slice: TimeSlice, version: int
    ) -> Answer:
        wanted = message.topics or []
        # Each topic is described once (as in Kafka), since a request can repeat names at little cost.
        if _by_id(wanted):
            asked = {(topic.topic_id, topic.name): topic for topic in wanted}
            return self._response(context, [self._described(topic, version) for topic in asked.values()])
        names = list(dict.fromkeys(topic.name or "" for topic in wanted))
        missing = [name for name in names if self._metadata.topic(name) is None]
        if not missing:
            if self._has_many_partitions(wanted):
                return self._shared_response(context, (version, context.listener, tuple(names)))
            return self._encoded(context, version, tuple(names))
        if message.allow_auto_topic_creation and self._auto_create():
            return Deferred.fromCoroutine(self._create(context, names, missing, time_slice))
        return self._response(context, [self._by_name(name) for name in names])

    async def _create(
        self, context: RequestContext, names: Sequence[str], missing: Sequence[str], time_slice: TimeSlice
    ) -> MetadataResponse:
        """Create missing topics, and respond when they can be written to: otherwise clients retry at a high rate."""
        wanted = [self._plan(name) async for name in time_slice.over(missing, 2) if topic_name_problem(name) is None]
        results = await for_all(wanted, self._topics.create_topics(wanted, timeout_ms=CREATE_TIMEOUT_MS))
        failed = {
            topic.name: result
            for topic, result in zip(wanted, results, strict=True)
            if isinstance(result, ApiError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS
        }
        topics = []
        async for name in time_slice.over(names, 3):
            described = self._by_name(name)
            if name in failed and described.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                described.error_code = failed[name].code
            topics.append(described)
        return self._response(context, topics)

    def _forget_outdated(self) -> None:
        if self._cached_version != self._metadata.version or len(self._cached) >= MAX_CACHED:
            self._cached.clear()
            self._cached_version = self._metadata.version

    def _encoded(self, context: RequestContext, version: int, names: tuple[str, ...] | None) -> bytes:
        self._forget_outdated()
        key = (version, context.listener, names)
        encoded = self._cached.get(key)
        if encoded is None:
            if names is None:
                topics = [self._topic(topic) for topic in self._metadata.topics.values()]
            else:
                topics = [self._by_name(name) for name in names]
            parts = encode(self._response(context, topics), version)
            encoded = bytes(parts[0]) if len(parts) == 1 else b"".join(parts)  # type: ignore[arg-type]
            if len(topics) <= MAX_CACHED_TOPICS or names is None:
                self._cached[key] = encoded
        return encoded

    def _response(self, context: RequestContext, topics: list[MetadataResponseTopic]) -> MetadataResponse:
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=broker.broker_id, host=at.host, port=at.port, rack=broker.rack)
                for broker, at in reachable(self._metadata, context.listener)
            ],
            cluster_id=self._metadata.cluster_id,
            controller_id=self._metadata.controller_id,
            topics=topics,
        )

    def _described(self, wanted: MetadataRequestTopic, version: int) -> MetadataResponseTopic:
        """A topic of a request that names some by id."""
        if wanted.topic_id == ZERO_UUID:
            return self._by_name(wanted.name or "")
        topic = self._metadata.topic_by_id(UUID(bytes=wanted.topic_id))
        if topic is not None:
            return self._topic(topic)
        # The name may be null from version 12 on.
        nameless = None if version >= 12 else ""
        return MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=nameless, topic_id=wanted.topic_id, partitions=[]
        )

    def _by_name(self, name: str) -> MetadataResponseTopic:
        topic = self._metadata.topic(name)
        if topic is not None:
            return self._topic(topic)
        illegal = topic_name_problem(name) is not None
        code = ErrorCode.INVALID_TOPIC_EXCEPTION if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return MetadataResponseTopic(error_code=code, name=name, partitions=[])

    def _topic(self, topic: TopicImage) -> MetadataResponseTopic:
        return self._topic_of(topic, self._partitions(enumerate(topic.partitions)))

    async def _topic_in_slices(self, topic: TopicImage, time_slice: TimeSlice) -> MetadataResponseTopic:
        partitions: list[MetadataResponsePartition] = []
        async for some in time_slice.over_parts(enumerate(list(topic.partitions)), PARTITIONS_AT_ONCE):
            partitions += self._partitions(some)
        return self._topic_of(topic, partitions)

    def _topic_of(self, topic: TopicImage, partitions: list[MetadataResponsePartition]) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id.bytes,
            is_internal=topic.name in self._internal_topics,
            partitions=partitions,
        )

    def _partitions(self, partitions: Iterable[tuple[int, PartitionImage]]) -> list[MetadataResponsePartition]:
        live = self._metadata.brokers
        return [
            MetadataResponsePartition(
                error_code=0 if partition.leader in live else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=number,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                offline_replicas=[replica for replica in partition.replicas if replica not in live],
            )
            for number, partition in partitions
        ]

    @serves(60, 0, 2, waits_for_metadata=True)
    def describe_cluster(self, context: RequestContext, request: Request) -> Answer:
        message: DescribeClusterRequest = request.message
        if message.endpoint_type != BROKERS_ENDPOINT_TYPE:
            known = message.endpoint_type == CONTROLLERS_ENDPOINT_TYPE
            return DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message=f"endpoint type {message.endpoint_type}: this listener serves brokers (1) only",
                endpoint_type=message.endpoint_type,
                cluster_id=self._metadata.cluster_id,
                brokers=[],
            )
        # Only live brokers are registered, so there are no fenced ones (KIP-1073) to include.
        return DescribeClusterResponse(
            cluster_id=self._metadata.cluster_id,
            controller_id=self._metadata.controller_id,
            cluster_authorized_operations=(
                CLUSTER_OPERATIONS if message.include_cluster_authorized_operations else OPERATIONS_UNKNOWN
            ),
            brokers=[
                DescribeClusterBroker(broker_id=broker.broker_id, host=at.host, port=at.port, rack=broker.rack)
                for broker, at in reachable(self._metadata, context.listener)
            ],
        )


def reachable(metadata: ClusterMetadata, listener: str) -> list[tuple[BrokerImage, Endpoint]]:
    """The live brokers that have a client's listener, with its address there."""
    return [
        (broker, broker.endpoints[listener])
        for _, broker in sorted(metadata.brokers.items())
        if listener in broker.endpoints
    ]


def _by_id(wanted: Iterable[MetadataRequestTopic]) -> bool:
    return any(topic.topic_id != ZERO_UUID for topic in wanted)


def _are_many(topics: Iterable[TopicImage]) -> bool:
    return sum([len(topic.partitions) for topic in topics]) > MANY_PARTITIONS
