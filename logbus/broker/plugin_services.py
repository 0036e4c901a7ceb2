"""
The services of a broker for its plugins: protocols and resources of the admin listener.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.internet.interfaces import IProtocolFactory
from zope.interface import implementer

from logbus.addresses import unmapped_address
from logbus.broker.plugin_client import PluginClient
from logbus.broker.plugin_files import PluginFile, plugin_file
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.controller.topic_plan import NewTopic, internal
from logbus.cluster.plugin_calls import Answers, PluginCalls
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.cluster.topic_admin_forwarder import TopicAdminForwarder
from logbus.config import ConfigView, keys
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.authorization.access import Authorization
from logbus.ilogbus import Fetched, IBroker, Leadership, Listener
from logbus.model import INTERNAL_TOPICS, TopicPartition
from logbus.net.request_context import RequestContext
from logbus.quotas.quota_managers import QuotaManagers
from logbus.records.batch import encode_batch, iter_batches
from logbus.records.read_committed import committed_records
from logbus.records.record import Record

CREATION_SECONDS = 30.0
"""How long an append waits for a topic that is being created."""


@implementer(IBroker)
@define(eq=False, slots=False)
class PluginServices:
    """
    Implements :class:`~logbus.ilogbus.IBroker`.

    :param kafka_factory: makes the factories of Kafka listeners.
    :param admin_factory: makes those of HTTP listeners; given these services, for the resources of plugins.
    """

    broker_id: int
    reactor: Any
    _metadata: ClusterMetadata
    _replicas: ReplicaManager
    _topics: TopicAdminForwarder
    _config: ConfigView
    _wall_clock: Callable[[], float]
    _plugin_calls: PluginCalls
    _authorization: Authorization | None
    _quotas: QuotaManagers
    _kafka_factory: Callable[[Listener], IProtocolFactory]
    _admin_factory: Callable[[IBroker, Listener], IProtocolFactory]
    _next_partition: dict[str, int] = field(factory=dict, init=False)

    @property
    def cluster_id(self) -> str:
        return self._metadata.cluster_id

    @returns_deferred
    async def append(
        self,
        topic: str,
        records: Sequence[tuple[bytes | None, bytes | None]],
        partition: int | None = None,
        acks: int = 1,
    ) -> tuple[int, int]:
        if topic in INTERNAL_TOPICS:
            raise internal(topic, "is written to by brokers only")
        if self._metadata.topic(topic) is None and self._config.get(keys.AUTO_CREATE_TOPICS_ENABLE):
            await self._create_if_missing(topic)
        if partition is None:
            known = self._metadata.topic(topic)
            count = len(known.partitions) if known is not None else 1
            partition = self._next_partition.get(topic, 0) % count
            self._next_partition[topic] = partition + 1
        now_ms = int(self._wall_clock() * 1000)
        batch = encode_batch([Record(0, now_ms, key, value) for key, value in records])
        replica = self._replicas.leader(topic, partition)
        appended = replica.append(batch, now_ms, all_in_sync=acks == -1)
        if acks == -1 and (durable := replica.durable()) is not None:
            await durable
        return partition, appended.base_offset

    def read(self, topic: str, partition: int, offset: int, max_bytes: int = 1_048_576) -> list[Record]:
        return self.fetch(topic, partition, offset, max_bytes).records

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int = 1_048_576) -> Fetched:
        replica = self._replicas.leader(topic, partition)
        found = replica.read(offset, max_bytes, committed=True, min_one=True)
        if found.data is None:
            return Fetched([], offset)
        aborted = [
            (each.producer_id, each.first_offset) for each in replica.log.aborted_transactions(offset, found.end_offset)
        ]
        data, next_offset = found.data.read(), offset
        for _, header in iter_batches(data):
            next_offset = header.last_offset + 1
        return Fetched([record for record in committed_records(data, aborted) if record.offset >= offset], next_offset)

    @returns_deferred
    async def settled(self, topic: str, partition: int) -> tuple[int, int]:
        replica = self._replicas.leader(topic, partition)
        end = replica.log.log_end_offset
        if (durable := replica.durable()) is not None:
            await durable
        return replica.log.log_start_offset, end

    def leadership(self, topic: str, partition: int) -> Leadership:
        image = self._metadata.partition(TopicPartition(topic, partition))
        known = self._metadata.topic(topic)
        if image is None or known is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{partition}")
        return Leadership(image.leader_and_isr.leader, image.leader_and_isr.leader_epoch, known.topic_id)

    def brokers(self) -> list[int]:
        return sorted(self._metadata.brokers)

    @returns_deferred
    async def create_topic(
        self,
        name: str,
        partitions: int = -1,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = -1,
    ) -> None:
        wanted = NewTopic(
            name, num_partitions=partitions, replication_factor=replication_factor, configs=dict(configs or {})
        )
        for outcome in await self._topics.create_topics([wanted]):
            if isinstance(outcome, ApiError):
                raise outcome

    async def _create_if_missing(self, topic: str) -> None:
        try:
            await self.create_topic(topic)
        except ApiError as e:
            if e.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            # The topic is being created by another request, and may not be served yet.
            served = self._metadata.wait_for(lambda metadata: metadata.topic(topic) is not None)
            try:
                await served.addTimeout(CREATION_SECONDS, self.reactor)
            except DeferredTimeout:
                raise e from None

    def topics(self) -> Mapping[str, int]:
        return {topic.name: len(topic.partitions) for topic in self._metadata.topics.values()}

    def answer_plugin(self, plugin: str, answers: Answers) -> None:
        self._plugin_calls.answer(plugin, answers)

    def ask_plugin(self, broker_id: int, plugin: str, body: bytes, seconds: float = 30.0) -> Deferred[bytes]:
        return Deferred.fromCoroutine(self._plugin_calls.ask(broker_id, plugin, body, seconds))

    def log_start_offset(self, topic: str, partition: int) -> int:
        return self._replicas.leader(topic, partition).log.log_start_offset

    def plugin_file(self, topic: str, partition: int, name: str) -> PluginFile:
        return plugin_file(self._replicas, topic, partition, name)

    def client(self, listener: Listener, host: str, port: int, principal: str | None = None) -> PluginClient:
        principal = principal or f"User:{listener.name}"
        context = RequestContext(0, listener.name, unmapped_address(host), port, principal, client_id=listener.protocol)
        return PluginClient(context, self._authorization, self._quotas)

    def kafka_factory(self, listener: Listener) -> IProtocolFactory:
        return self._kafka_factory(listener)

    def admin_factory(self, listener: Listener) -> IProtocolFactory:
        return self._admin_factory(self, listener)
