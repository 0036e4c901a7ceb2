"""
The consumer of groups that coordinate through ZooKeeper (Kafka 0.8: ZookeeperConsumerConnector): members divide
partitions among themselves, without a coordinator.

.. code-block:: python

    store = zookeeper_store(reactor, "zk1:2181,zk2:2181/logbus")
    await store.open()
    connector = ConsumerConnector(cluster, store, "page-views")
    streams = await connector.create_message_streams({"pages": 2})
    for stream in streams["pages"]:
        ...  # async for record in stream
    await connector.shutdown()
"""

from __future__ import annotations

import re
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.cluster import Cluster
from logbus.client.connector.connector_options import ConnectorOptions, Storage
from logbus.client.connector.group_registry import GroupRegistry
from logbus.client.connector.message_stream import MessageStream
from logbus.client.connector.offset_storage import KafkaOffsetStorage, OffsetStorage, ZookeeperOffsetStorage
from logbus.client.connector.owned_partitions import OwnedPartitions
from logbus.client.connector.positions import Positions
from logbus.client.connector.rebalance import RebalanceRounds
from logbus.client.connector.topic_filter import TopicFilter
from logbus.client.connector.znodes import MOST_STREAMS, GroupPaths, TopicCount, is_legal_group
from logbus.client.connector.zookeeper_member import ZookeeperMember
from logbus.client.consumer.fetch_options import FetchOptions
from logbus.client.consumer.fetcher import Fetcher
from logbus.client.consumer.partition_position import Reset
from logbus.client.interceptors import ConsumerInterceptor, ConsumerInterceptors
from logbus.coroutines import returns_deferred
from logbus.errors import ConfigError, LogbusError
from logbus.metastore.operations import SessionState
from logbus.model import LEGAL_TOPIC_NAME, TopicPartition
from logbus.services import PeriodicTask


class ConsumerConnector:
    """
    A consumer in a group.

    A record is *processed* when its stream is asked for the next one. Processed records are committed every
    ``auto_commit_interval``, before a partition is released, and at the end. Records that a member had not processed
    when it died are delivered again to another member. Only :meth:`commit_offsets` can commit the record in hand.

    :param cluster: the cluster to read from; its owner closes it.
    :param store: an open connection to the cluster's ZooKeeper, see :func:`zookeeper_store`; its owner closes it.
    :param group_id: letters, digits, ``.``, ``_`` and ``-``.
    :param consumer_id: the part of the consumer id after the group; None: made of the host name, the time and a random
        number.
    :param offsets_storage: where offsets are stored: ``zookeeper`` or ``kafka``. They are not copied from one to the
        other.
    :param auto_commit: commit processed records automatically.
    :param auto_commit_interval: seconds.
    :param auto_offset_reset: where to start without a committed offset, or if the offset is out of range: ``earliest``,
        ``latest``, or ``none``, which raises an error.
    :param rebalance_max_retries: attempts after the first until a rebalance counts as failed.
    :param rebalance_backoff: seconds between them; each change also causes an attempt.
    :param finish_timeout: seconds to wait for records in processing before their partitions are released; after that
        the next owner gets them again.
    :param offsets_timeout: the most seconds for reading or committing offsets.
    :param exclude_internal_topics: filters ignore internal topics; all members must have the same setting.
    :param interceptors: see :class:`~logbus.client.interceptors.ConsumerInterceptor`; they get each record when its
        stream delivers it, and committed offsets.
    :param wall_clock: seconds since 1970.
    :param reading: options of :class:`~logbus.client.consumer.fetch_options.FetchOptions`: ``max_wait``, ``max_bytes``,
        ``isolation`` and so on. ``queue_bytes`` is the buffer of each stream.

    :ivar consumer_id: the registered id.
    :raises ConfigError: an option is wrong.
    :raises TypeError: there is no such option.
    """

    _log = Logger()

    def __init__(
        self,
        cluster: Cluster,
        store: Any,
        group_id: str,
        *,
        consumer_id: str | None = None,
        offsets_storage: Storage = "zookeeper",
        auto_commit: bool = True,
        auto_commit_interval: float = 5.0,
        auto_offset_reset: Reset = "latest",
        rebalance_max_retries: int = 4,
        rebalance_backoff: float = 2.0,
        finish_timeout: float = 1.0,
        offsets_timeout: float = 5.0,
        exclude_internal_topics: bool = True,
        interceptors: Sequence[ConsumerInterceptor] = (),
        wall_clock: Callable[[], float] = time.time,
        **reading: Any,
    ) -> None:
        if not is_legal_group(group_id):
            raise ConfigError(f"group_id {group_id!r}: expected up to 255 letters, digits, '.', '_' and '-'")
        own = _unique(wall_clock()) if consumer_id is None else consumer_id
        if not is_legal_group(own):
            raise ConfigError(f"consumer_id {own!r}: expected up to 255 letters, digits, '.', '_' and '-'")
        if auto_offset_reset not in ("earliest", "latest", "none"):
            raise ConfigError(f"auto_offset_reset {auto_offset_reset!r}: expected earliest, latest or none")
        self._options = ConnectorOptions(
            offsets_storage=offsets_storage,
            auto_commit=auto_commit,
            auto_commit_interval=auto_commit_interval,
            rebalance_max_retries=rebalance_max_retries,
            rebalance_backoff=rebalance_backoff,
            finish_timeout=finish_timeout,
            offsets_timeout=offsets_timeout,
            exclude_internal_topics=exclude_internal_topics,
            fetching=FetchOptions(reset=auto_offset_reset, **reading),
        )
        self.consumer_id = f"{group_id}_{own}"
        self._cluster = cluster
        self._store = store
        self._positions = Positions()
        self._interceptors = ConsumerInterceptors(tuple(interceptors))
        self._rounds = RebalanceRounds(rebalance_max_retries)
        paths = GroupPaths(group_id)
        self._registry = GroupRegistry(store, paths, self.consumer_id, wall_clock)
        self._storage: OffsetStorage = (
            ZookeeperOffsetStorage(store, paths)
            if offsets_storage == "zookeeper"
            else KafkaOffsetStorage(AdminClient(cluster, timeout=offsets_timeout), group_id)
        )
        self._committing = PeriodicTask(
            cluster.reactor, auto_commit_interval, self._commit_periodically, "committing offsets"
        )
        self._cannot_commit = False
        self._member: ZookeeperMember | None = None
        self._owned_partitions: OwnedPartitions | None = None
        self._closing: list[Deferred[None]] | None = None
        self._closed = False

    def create_message_streams(self, topics: Mapping[str, int]) -> Deferred[dict[str, list[MessageStream]]]:
        """
        Join the group, and read topics, which need not exist yet.

        :param topics: the number of streams of each topic; the streams of all members share its partitions.
        :return: fires with the streams of each topic once this member has its partitions.
        :raises ConfigError: a topic name or a number is invalid.
        :raises RebalanceFailed: (in the Deferred) this member did not get its partitions, and has left the group again.
        :raises LogbusError: this connector has streams already, or is shut down.
        """
        for topic, count in topics.items():
            if not LEGAL_TOPIC_NAME.fullmatch(topic) or topic in (".", ".."):
                raise ConfigError(f"{topic!r} is not a topic's name: expected letters, digits, '.', '_' and '-'")
            _check_count(count)
        if not topics:
            raise ConfigError("no topic is named")
        streams = {topic: [self._stream() for _ in range(count)] for topic, count in topics.items()}

        async def join() -> dict[str, list[MessageStream]]:
            every = [stream for some in streams.values() for stream in some]
            await self._join(TopicCount(dict(topics)), every, lambda topic, number: streams[topic][number])
            return streams

        self._check_fresh()
        return Deferred.fromCoroutine(join())

    def create_message_streams_by_filter(
        self, topic_filter: TopicFilter, count: int = 1
    ) -> Deferred[list[MessageStream]]:
        """
        Join the group, and read the topics that a filter allows, including topics created later.

        :param topic_filter: :class:`WhiteList` or :class:`BlackList`.
        :param count: the number of streams; each may deliver records of several topics.
        :return: fires with the streams once this member has its partitions.
        :raises ConfigError: the number is invalid.
        :raises RebalanceFailed: (in the Deferred) this member did not get its partitions, and has left the group again.
        :raises LogbusError: this connector has streams already, or is shut down.
        """
        _check_count(count)
        streams = [self._stream() for _ in range(count)]

        async def join() -> list[MessageStream]:
            await self._join(TopicCount({}, topic_filter, count), streams, lambda _, number: streams[number])
            return streams

        self._check_fresh()
        return Deferred.fromCoroutine(join())

    @returns_deferred
    async def commit_offsets(self, *in_hand: MessageStream) -> None:
        """
        Commit processed records, including the record in hand of each given stream.

        :param in_hand: the streams whose last record is processed; none: all streams.
        :raises LogbusError: (in the Deferred) an offset could not be committed, for instance because ZooKeeper is
            unreachable.
        """
        if self._owned_partitions is not None:
            for stream in in_hand or self._owned_partitions.streams:
                stream.finish()
            await self._owned_partitions.commit()

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that this consumer reads at present."""
        streams = () if self._owned_partitions is None else self._owned_partitions.streams
        return frozenset(partition for stream in streams for partition in stream.partitions)

    def shutdown(self) -> Deferred[None]:
        """
        Commit processed records, release all partitions, leave the group, and end the streams.

        :return: fires when that is done; if ZooKeeper is unreachable, the others notice when the session expires.
        """
        ended: Deferred[None] = Deferred()
        if self._closed:
            ended.callback(None)
        elif self._closing is not None:
            self._closing.append(ended)
        else:
            self._closing = [ended]
            Deferred.fromCoroutine(self._shutdown()).addBoth(self._ended)
        return ended

    # Internals.

    def _stream(self) -> MessageStream:
        return MessageStream(
            self._cluster,
            lambda: Fetcher(self._cluster, self._options.fetching),
            self._positions,
            self._interceptors,
        )

    def _check_fresh(self) -> None:
        if self._closing is not None:
            raise LogbusError("the connector is shut down")
        if self._owned_partitions is not None:
            raise LogbusError("the connector has streams already; make another one for more")

    async def _join(
        self, subscription: TopicCount, streams: list[MessageStream], stream_of: Callable[[str, int], MessageStream]
    ) -> None:
        self._owned_partitions = OwnedPartitions(
            self._cluster,
            self._storage,
            self._positions,
            streams,
            stream_of,
            lambda: self._store.state is SessionState.CONNECTED,
            self._interceptors,
            self._options,
        )
        self._member = ZookeeperMember(
            self._registry,
            self._owned_partitions,
            subscription,
            self._rounds,
            self._options,
            self._cluster.reactor,
        )
        if self._options.auto_commit:
            self._committing.startService()
        try:
            await self._member.join()
        except LogbusError:
            await self.shutdown()
            raise

    async def _commit_periodically(self) -> None:
        assert self._owned_partitions is not None
        try:
            await self._owned_partitions.commit()
        except LogbusError as e:
            if not self._cannot_commit:
                self._log.warn("consumer {name}: {error}; retrying", name=self.consumer_id, error=e)
            self._cannot_commit = True
        else:
            if self._cannot_commit:
                self._log.info("consumer {name} commits offsets again", name=self.consumer_id)
            self._cannot_commit = False

    async def _shutdown(self) -> None:
        if self._committing.running:
            await self._committing.stopService()
        try:
            if self._member is not None:
                await self._member.leave()
        finally:
            if self._owned_partitions is not None:
                self._owned_partitions.end()

    def _ended(self, result: Any) -> None:
        self._closed = True
        waiting, self._closing = self._closing or [], []
        for each in waiting:
            if not each.called:
                each.callback(result)


def _check_count(count: int) -> None:
    if not 1 <= count <= MOST_STREAMS:
        raise ConfigError(f"{count} streams: expected 1 to {MOST_STREAMS}")


def _unique(now: float) -> str:
    """The unique part of a consumer id, in Kafka's format."""
    host = re.sub(r"[^a-zA-Z0-9._-]", "-", socket.gethostname())[:200]
    return f"{host}-{int(now * 1000)}-{uuid.uuid4().hex[:8]}"
