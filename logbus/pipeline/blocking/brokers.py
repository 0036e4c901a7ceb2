"""
A cluster as a process knows it: where to begin, who leads what, and connections to the brokers it talks to.

What is known is kept until somebody finds out that it is wrong (:meth:`Brokers.forget`), and asked for again then.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Mapping

from attrs import evolve

from logbus.client.topics import Node, Partition, Topic, newest, topic_of
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.pipeline.blocking.connection import Connection
from logbus.pipeline.blocking.memory import Memory
from logbus.pipeline.blocking.offsets import OffsetAt, list_offsets
from logbus.pipeline.blocking.pool import Pool
from logbus.pipeline.blocking.retry import api_error, until_done
from logbus.pipeline.blocking.settings import Settings
from logbus.pipeline.errors import Disconnected, Unreachable
from logbus.wire.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse
from logbus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

__all__ = ["GROUP", "TRANSACTION", "Brokers", "Node", "Topic", "brokers_for"]

GROUP, TRANSACTION = 0, 1
"""Kinds of keys that have coordinators (FindCoordinator's key types)."""
_BATCHED = 4
"""The version of FindCoordinator from which one request asks for several keys (KIP-699)."""
_FIND_COORDINATOR = 10


class Brokers:
    """
    What threads of one process share. Each connection is used by one thread at a time: :meth:`node` and its relatives
    give the calling thread's own, :meth:`release` hands them to whichever thread is next.

    :ivar settings: how the brokers are reached.
    :ivar memory: where large answers are read into.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.memory = Memory()
        self.nodes: Mapping[int, Node] = {}
        self.controller_id = -1
        self.cluster_id: str | None = None
        self._topics: dict[str, Topic] = {}
        self._coordinators: dict[tuple[int, str], Node] = {}
        self._pool = Pool(settings)

    # Who is there.

    def metadata(self, topics: Iterable[str] | None = None) -> dict[str, Topic]:
        """
        Topics as the brokers describe them now.

        :param topics: by name; None: all of them.
        :returns: by name; those that are not there are left out.
        :raises ApiError: one may not be described.
        :raises Unreachable: no broker answers.
        """
        names = None if topics is None else sorted(set(topics))
        return until_done(self.settings, lambda: self._ask_metadata(names))

    def topic(self, name: str) -> Topic:
        """
        A topic, from what is known or by asking once.

        :raises ApiError: UNKNOWN_TOPIC_OR_PARTITION: there is none; or what else the broker says.
        """
        known = self._topics.get(name)
        if known is None:
            known = self._ask_metadata([name]).get(name)
        if known is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        return known

    def led(self, partition: TopicPartition) -> Partition:
        """
        Who leads a partition, and in which epoch, from what is known or by asking once.

        :raises ApiError: UNKNOWN_TOPIC_OR_PARTITION: there is no such partition; LEADER_NOT_AVAILABLE.
        """
        topic = self.topic(partition.topic)
        found = topic.partitions.get(partition.partition)
        if found is None:
            self.forget(partition)
            there = f"it has 0 to {len(topic.partitions) - 1}"
            what = f"topic {partition.topic!r} has no partition {partition.partition}; {there}"
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what)
        if found.leader < 0 or found.leader not in self.nodes:
            self.forget(partition)
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
        return found

    def leader_id(self, partition: TopicPartition) -> int:
        """
        The broker that leads a partition.

        :raises ApiError: as :meth:`led`.
        """
        return self.led(partition).leader

    def moved(self, partition: TopicPartition, leader: int, leader_epoch: int, nodes: Iterable[Node] = ()) -> bool:
        """
        A broker that is asked in vain says who leads a partition now (KIP-951).

        :param nodes: where it says that brokers can be reached.
        :returns: whether that is newer than what was known; else one has to ask.
        """
        topic = self._topics.get(partition.topic)
        known = None if topic is None else topic.partitions.get(partition.partition)
        found = {each.node_id: each for each in nodes}
        if topic is None or known is None or leader < 0 or leader_epoch <= known.leader_epoch:
            return False
        if leader not in found and leader not in self.nodes:
            return False
        self.nodes = {**self.nodes, **found}
        changed = evolve(known, leader=leader, leader_epoch=leader_epoch)
        self._topics[topic.name] = evolve(topic, partitions={**topic.partitions, known.index: changed})
        return True

    def forget(self, what: TopicPartition | Node | str | tuple[int, str]) -> None:
        """
        What is known proved wrong: ask again when it is next needed.

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
        A connection to some broker: one that is there already, or a known one, or the first of the bootstrap addresses
        that answers.

        :raises Unreachable: none does.
        """
        if (held := self._pool.held()) is not None:
            return self._pool.get(held)
        known = [(node.host, node.port) for node in self.nodes.values()]
        random.shuffle(known)
        said = []
        for address in dict.fromkeys([*known, *self.settings.bootstrap]):
            try:
                return self._pool.get(address)
            except Disconnected as e:
                said.append(str(e))
        raise Unreachable(f"no broker can be reached: {'; '.join(said)}")

    def coordinator(self, kind: int, key: str) -> Connection:
        """
        A connection to the broker that coordinates a key, from what is known or by asking once.

        :param kind: :data:`GROUP` or :data:`TRANSACTION`.
        :raises ApiError: COORDINATOR_NOT_AVAILABLE and others that may be gone later.
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

    def offsets(
        self, wanted: Mapping[TopicPartition, int], committed: bool = False, seconds: float | None = None
    ) -> dict[TopicPartition, OffsetAt]:
        """
        The first offsets at or after times: see :func:`~logbus.pipeline.blocking.offsets.list_offsets`.

        :param seconds: for how long to ask again; default: the settings' patience.
        """
        return list_offsets(self, wanted, committed, seconds)

    def release(self) -> None:
        """The calling thread needs its connections no more: others may have them."""
        self._pool.release()

    def close(self) -> None:
        """Hang up everywhere. What is asked afterwards connects anew."""
        self._pool.close()

    # Asking.

    def _ask_metadata(self, names: list[str] | None) -> dict[str, Topic]:
        asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        response: MetadataResponse = self.any().request(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
        if response.error_code:
            raise api_error(response.error_code, "metadata")
        self.nodes = {each.node_id: Node(each.node_id, each.host, each.port, each.rack) for each in response.brokers}
        self.controller_id, self.cluster_id = response.controller_id, response.cluster_id
        found = {}
        for each in response.topics:
            name = each.name or ""
            if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._topics.pop(name, None)
                continue
            if each.error_code:
                raise api_error(each.error_code, f"topic {name!r}")
            found[name] = self._topics[name] = newest(self._topics.get(name), topic_of(each))
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


_BROKERS: dict[Settings, Brokers] = {}

# What a parent process has connected to is its own: a child begins with nothing, and only closes its copies.
os.register_at_fork(after_in_child=_BROKERS.clear)


def brokers_for(settings: Settings) -> Brokers:
    """This process's :class:`Brokers` of ``settings``: Spark's workers are used for many tasks."""
    return _BROKERS.get(settings) or _BROKERS.setdefault(settings, Brokers(settings))
