"""What an application, its input and its checks do with the cluster by the simulation's own client."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from attrs import define, field
from twisted.internet.endpoints import TCP4ClientEndpoint

from logbus.client.admin.admin_client import AdminClient, NewTopic
from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer import Consumer
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.consumer.partition_position import Isolation
from logbus.client.list_offsets import EARLIEST
from logbus.client.producer.producer import Producer
from logbus.client.producer.producer_record import RecordMetadata
from logbus.coroutines import returns_deferred, sleep
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition
from logbus.records.batch import Headers
from logbus.testing.simulation.environment.node_reactor import NodeReactor

_PATIENCE_S = 3600.0


@define(eq=False)
class ClusterTools:
    """
    A client of one process.

    :ivar random: of the producer.
    """

    reactor: NodeReactor
    bootstrap: str
    random: Random
    _cluster: Cluster | None = field(default=None, init=False)
    _producer: Producer | None = field(default=None, init=False)

    @property
    def cluster(self) -> Cluster:
        """The cluster, made when it is first needed."""
        if self._cluster is None:
            self._cluster = Cluster(
                self.reactor,
                self.bootstrap,
                client_id="simulation",
                timeout=10.0,
                connect_timeout=3.0,
                endpoint=lambda host, port: TCP4ClientEndpoint(self.reactor, host, port, timeout=3),
            )
        return self._cluster

    @returns_deferred
    async def produce(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int | None, headers: Headers
    ) -> RecordMetadata:
        """Write a record exactly once."""
        if self._producer is None:
            self._producer = Producer(
                self.cluster, random=self.random, delivery_timeout=_PATIENCE_S, request_timeout=10.0
            )
        return await self._producer.send(topic, value, key, partition=partition, headers=headers)

    @returns_deferred
    async def read(self, topic: str, isolation_level: Isolation) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        """
        All records of a topic, by partition and offset.

        :raises LogbusError: the cluster does not answer.
        """
        metadata = await self.cluster.topic(topic)
        partitions = [TopicPartition(topic, number) for number in sorted(metadata.partitions)]
        consumer = Consumer(self.cluster, isolation_level=isolation_level)
        try:
            ends = await consumer.end_offsets(partitions)
            consumer.assign(dict.fromkeys(partitions, EARLIEST))
            found: list[ConsumerRecord[bytes | None, bytes | None]] = []
            deadline = self.reactor.seconds() + 30
            while any((consumer.position(each) or 0) < end for each, end in ends.items()):
                if self.reactor.seconds() > deadline:
                    raise LogbusError(f"topic {topic} could not be read to its end in 30 s")
                for records in (await consumer.poll(0.5)).values():
                    found += records
        finally:
            await consumer.close()
        return sorted(found, key=lambda record: (record.partition, record.offset))

    @returns_deferred
    async def committed(self, group_id: str) -> Mapping[TopicPartition, int]:
        """The committed offsets of a group."""
        found = (await AdminClient(self.cluster).list_group_offsets([group_id]))[group_id]
        if isinstance(found, ApiError):
            raise found
        return {each: at.offset for each, at in sorted(found.items()) if not isinstance(at, ApiError)}

    @returns_deferred
    async def create_topics(self, topics: Mapping[str, int], replication: int) -> None:
        """Create topics, however often that takes."""
        missing = dict(topics)
        while missing:
            wanted = [
                NewTopic(name, partitions=count, replication_factor=replication) for name, count in missing.items()
            ]
            try:
                answers = await AdminClient(self.cluster).create_topics(wanted)
            except LogbusError:
                answers = {}
            for name, error in answers.items():
                if error is None or error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                    missing.pop(name)
            if missing:
                await sleep(self.reactor, 0.5)
