"""
Who leads what: Metadata and DescribeCluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.cluster.anywhere import TopicsAnywhere
from logbus.cluster.metadata import BrokerImage, ClusterMetadata, TopicImage
from logbus.cluster.topicplans import NewTopic
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.routing import Answer, serves
from logbus.handlers.topics import for_all
from logbus.model import Endpoint, topic_name_problem
from logbus.net.context import RequestContext
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
from logbus.wire.schema import ZERO_UUID, decode, encode

BROKERS_ENDPOINT_TYPE, CONTROLLERS_ENDPOINT_TYPE = 1, 2
CREATE_TIMEOUT_MS = 30_000
# Bits by Kafka's numbers of operations (AclOperation), those that make sense for a topic and for a cluster.
TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
MAX_CACHED = 256
#: Answers about more topics than these are kept only if they are about all: a few of them could take all memory.
MAX_CACHED_TOPICS = 32

CacheKey = tuple[int, str, tuple[str, ...] | None]


@define(eq=False)
class MetadataHandlers:
    """
    Serves Metadata.

    Answers are kept encoded until the metadata changes: clients ask the same few questions all the time.

    :param auto_create: whether a topic that is asked for is created (``auto.create.topics.enable``).
    :param plan: what it is like then.
    """

    _metadata: ClusterMetadata
    _topics: TopicsAnywhere
    _internal_topics: frozenset[str]
    _auto_create: Callable[[], bool]
    _plan: Callable[[str], NewTopic] = NewTopic
    _cached: dict[CacheKey, bytes] = field(factory=dict, init=False)
    _cached_version: int = field(default=-1, init=False)

    @serves(3, 0, 13)
    def metadata(self, context: RequestContext, request: Request) -> Answer:
        message: MetadataRequest = request.message
        if message.include_topic_authorized_operations or message.include_cluster_authorized_operations:
            return self._with_operations(context, message, request.api_version)
        return self._metadata_for(context, message, request.api_version)

    def _with_operations(self, context: RequestContext, message: MetadataRequest, version: int) -> Answer:
        """The answer with what the client may do (KIP-430): everything, as long as nobody is asked who they are."""
        answer = self._metadata_for(context, message, version)
        if isinstance(answer, Deferred):
            return answer.addCallback(self._add_operations, message)
        if isinstance(answer, bytes):
            answer = decode(MetadataResponse, version, answer)[0]
        return self._add_operations(answer, message)

    def _add_operations(self, answer: MetadataResponse, message: MetadataRequest) -> MetadataResponse:
        if message.include_topic_authorized_operations:
            for topic in answer.topics:
                if not topic.error_code:
                    topic.topic_authorized_operations = TOPIC_OPERATIONS
        if message.include_cluster_authorized_operations:
            answer.cluster_authorized_operations = CLUSTER_OPERATIONS
        return answer

    def _metadata_for(self, context: RequestContext, message: MetadataRequest, version: int) -> Answer:
        wanted = message.topics
        if wanted is None or (version == 0 and not wanted):
            return self._encoded(context, version, None)
        # A topic that is named twice is described once (as with Kafka): a name costs bytes, its partitions much more.
        if any(topic.topic_id != ZERO_UUID for topic in wanted):
            asked = {(topic.topic_id, topic.name): topic for topic in wanted}
            return self._response(context, [self._described(topic, version) for topic in asked.values()])
        names = list(dict.fromkeys(topic.name or "" for topic in wanted))
        missing = [name for name in names if self._metadata.topic(name) is None]
        if not missing:
            return self._encoded(context, version, tuple(names))
        if message.allow_auto_topic_creation and self._auto_create():
            return Deferred.fromCoroutine(self._create(context, names, missing))
        return self._response(context, [self._by_name(name) for name in names])

    async def _create(self, context: RequestContext, names: Sequence[str], missing: Sequence[str]) -> MetadataResponse:
        """Create what is missing, and answer when it can be written to: clients retry too eagerly otherwise."""
        wanted = [self._plan(name) for name in missing if topic_name_problem(name) is None]
        results = await for_all(wanted, self._topics.create_topics(wanted, timeout_ms=CREATE_TIMEOUT_MS))
        failed = {
            topic.name: result
            for topic, result in zip(wanted, results, strict=True)
            if isinstance(result, ApiError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS
        }
        topics = []
        for name in names:
            described = self._by_name(name)
            if name in failed and described.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                described.error_code = failed[name].code
            topics.append(described)
        return self._response(context, topics)

    def _encoded(self, context: RequestContext, version: int, names: tuple[str, ...] | None) -> bytes:
        if self._cached_version != self._metadata.version or len(self._cached) >= MAX_CACHED:
            self._cached.clear()
            self._cached_version = self._metadata.version
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
        # A nameless topic can only be spelled from version 12 on.
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
        live = self._metadata.brokers
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id.bytes,
            is_internal=topic.name in self._internal_topics,
            partitions=[
                MetadataResponsePartition(
                    error_code=0 if partition.leader in live else ErrorCode.LEADER_NOT_AVAILABLE,
                    partition_index=number,
                    leader_id=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    replica_nodes=list(partition.replicas),
                    isr_nodes=list(partition.isr),
                    offline_replicas=[replica for replica in partition.replicas if replica not in live],
                )
                for number, partition in enumerate(topic.partitions)
            ],
        )

    @serves(60, 0, 2)
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
        # A broker that is away is not registered here: of "fenced" ones (KIP-1073) there are none to include.
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
    """The live brokers that have the listener a client came in on, and where it is there."""
    return [
        (broker, broker.endpoints[listener])
        for _, broker in sorted(metadata.brokers.items())
        if listener in broker.endpoints
    ]
