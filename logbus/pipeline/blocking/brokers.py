"""
Cluster metadata, coordinators and connections, shared by the threads of a process (Kafka: Metadata, NetworkClient).

Metadata is kept until a caller finds it stale (:meth:`Brokers.forget`), and then requested again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable

from logbus.client.cluster.metadata_cache import MetadataCache
from logbus.client.cluster.topic_metadata import Node, PartitionMetadata, TopicMetadata
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.pipeline.blocking.connection import Connection
from logbus.pipeline.blocking.connection_pool import ConnectionPool
from logbus.pipeline.blocking.connection_settings import ConnectionSettings
from logbus.pipeline.blocking.receive_buffers import ReceiveBuffers
from logbus.pipeline.blocking.retry import api_error, with_retries
from logbus.pipeline.errors import Disconnected, Unreachable
from logbus.wire.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse
from logbus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

__all__ = ["GROUP", "TRANSACTION", "Brokers", "Node", "TopicMetadata", "brokers_for"]

GROUP, TRANSACTION = 0, 1
"""Kinds of keys that have coordinators (FindCoordinator's key types)."""
_BATCHED = 4
"""The version of FindCoordinator from which one request asks for several keys (KIP-699)."""
_FIND_COORDINATOR = 10


class Brokers(MetadataCache):
    """
    A cluster's brokers. Each connection is used by one thread at a time: :meth:`node` and similar methods return the
    calling thread's own connection, :meth:`release` makes it available to other threads.

    :ivar settings: how the brokers are reached.
    :ivar buffers: buffers that large responses are read into.
    :ivar problem: why no broker could be connected to at the last attempt; "": one could.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        super().__init__()
        self.settings = settings
        self.buffers = ReceiveBuffers()
        self.problem = ""
        self._coordinators: dict[tuple[int, str], Node] = {}
        self._pool = ConnectionPool(settings)

    # Metadata.

    def metadata(self, topics: Iterable[str] | None = None) -> dict[str, TopicMetadata]:
        """
        Topics as the brokers describe them now.

        :param topics: by name; None: all of them.
        :returns: by name, without topics that do not exist.
        :raises ApiError: access to a topic is denied.
        :raises Unreachable: no broker answers.
        """
        names = None if topics is None else sorted(set(topics))
        return with_retries(self.settings, lambda: self._ask_metadata(names))

    def topic(self, name: str) -> TopicMetadata:
        """
        A topic, from the cached metadata or by one request.

        :raises ApiError: UNKNOWN_TOPIC_OR_PARTITION: there is none; or another error of the broker.
        """
        known = self._topics.get(name)
        if known is None:
            known = self._ask_metadata([name]).get(name)
        if known is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        return known

    def partition_metadata(self, partition: TopicPartition) -> PartitionMetadata:
        """
        A partition with its leader and leader epoch, from the cached metadata or by one request.

        :raises ApiError: UNKNOWN_TOPIC_OR_PARTITION: there is no such partition; LEADER_NOT_AVAILABLE.
        """
        topic = self.topic(partition.topic)
        found = topic.partitions.get(partition.partition)
        if found is None:
            self.forget(partition)
            raise topic.has_no(partition.partition)
        if found.leader < 0 or found.leader not in self.nodes:
            self.forget(partition)
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
        return found

    def leader_id(self, partition: TopicPartition) -> int:
        """
        The broker that leads a partition.

        :raises ApiError: as :meth:`partition_metadata`.
        """
        return self.partition_metadata(partition).leader

    def forget(self, what: TopicPartition | Node | str | tuple[int, str]) -> None:
        """
        Drop cached data that proved wrong, so that it is requested when next needed.

        :param what: a partition or a topic; a broker; or the kind and key of a coordinator.
        """
        if isinstance(what, Node):
            self._pool.drop((what.host, what.port))
        elif isinstance(what, TopicPartition):
            self._topics.pop(what.topic, None)
        elif isinstance(what, str):
            self._topics.pop(what, None)
        else:
            self._coordinators.pop(what, None)

    # Connections.

    def leader(self, partition: TopicPartition) -> Connection:
        """
        A connection to a partition's leader.

        :raises ApiError: as :meth:`leader_id`.
        :raises Disconnected: the leader cannot be reached; the topic is forgotten.
        """
        node = self.leader_id(partition)
        try:
            return self.node(node)
        except Disconnected:
            self.forget(partition)
            raise

    def node(self, node_id: int) -> Connection:
        """
        A connection to a broker that metadata named.

        :raises Disconnected: it cannot be reached.
        """
        node = self.nodes.get(node_id)
        if node is None:
            raise Disconnected(f"broker {node_id} is not among the known ones: {sorted(self.nodes)}")
        return self._pool.get((node.host, node.port))

    def any(self) -> Connection:
        """
        A connection to any broker: an open one, else one to a known broker, else to the first bootstrap address that
        answers.

        :raises Unreachable: none answers.
        """
        if (held := self._pool.held()) is not None:
            return self._pool.get(held)
        known = [(node.host, node.port) for node in self.nodes.values()]
        random.shuffle(known)
        said = []
        for address in dict.fromkeys([*known, *self.settings.bootstrap]):
            try:
                found = self._pool.get(address)
            except Disconnected as e:
                said.append(str(e))
            else:
                self.problem = ""
                return found
        self.problem = "; ".join(said)
        raise Unreachable(f"no broker can be reached: {self.problem}")

    def coordinator(self, kind: int, key: str) -> Connection:
        """
        A connection to a key's coordinator, from the cache or by one FindCoordinator request.

        :param kind: :data:`GROUP` or :data:`TRANSACTION`.
        :raises ApiError: COORDINATOR_NOT_AVAILABLE or another, perhaps retriable, error.
        :raises Disconnected: it cannot be reached; the key is forgotten.
        """
        node = self._coordinators.get((kind, key))
        if node is None:
            node = self._coordinators[kind, key] = self._find_coordinator(kind, key)
        try:
            return self._pool.get((node.host, node.port))
        except Disconnected:
            self.forget((kind, key))
            raise

    def release(self) -> None:
        """Make the calling thread's connections available to other threads."""
        self._pool.release()

    def close(self) -> None:
        """Close all connections. A later request opens new ones."""
        self._pool.close()

    # Requests.

    def _ask_metadata(self, names: list[str] | None) -> dict[str, TopicMetadata]:
        asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        response: MetadataResponse = self.any().request(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
        if response.error_code:
            raise api_error(response.error_code, "metadata")
        found = self._update(response)
        for each in response.topics:
            if each.error_code and each.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise api_error(each.error_code, f"topic {each.name!r}")
        return found

    def _find_coordinator(self, kind: int, key: str) -> Node:
        connection = self.any()
        if connection.version(_FIND_COORDINATOR) >= _BATCHED:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        else:
            request = FindCoordinatorRequest(key_type=kind, key=key)
        response: FindCoordinatorResponse = connection.request(request)
        answer = next((each for each in response.coordinators if each.key == key), response)
        if answer.error_code:
            noun = "group" if kind == GROUP else "transactional id"
            raise api_error(answer.error_code, f"{noun} {key!r}", answer.error_message)
        return Node(answer.node_id, answer.host, answer.port)


_BROKERS: dict[ConnectionSettings, Brokers] = {}

# Connections belong to the process that opened them: a forked child starts without any, and closes its copies.
os.register_at_fork(after_in_child=_BROKERS.clear)


def brokers_for(settings: ConnectionSettings) -> Brokers:
    """This process's :class:`Brokers` for ``settings``; kept, since a Spark worker runs many tasks."""
    return _BROKERS.get(settings) or _BROKERS.setdefault(settings, Brokers(settings))
