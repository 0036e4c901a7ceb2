"""
What is known of a broker, a partition, a topic: the values behind clients' questions about the cluster. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from uuid import UUID

from attrs import define, field, frozen

from logbus.model import Endpoint, LeaderAndIsr


@frozen
class BrokerImage:
    """
    A live broker.

    :ivar endpoints: where clients reach it, by listener name.
    :ivar epoch: the czxid of its registration; grows with every restart.
    :ivar incarnation: of its life; brokers prove with it to each other who they are, so clients are never told.
    :ivar feature_level: what it can do with other brokers.
    :ivar unclean_shutdown: it came up after an unclean stop; see :class:`.Registration`.
    :ivar in_controlled_shutdown: it is shutting down, and is given nothing new.
    :ivar unsynced_lost: it came up without what it had not synced; see :class:`.Registration`.
    :ivar logs_lost: it came up with a new log directory; see :class:`.Registration`.
    """

    broker_id: int
    endpoints: Mapping[str, Endpoint]
    rack: str | None = None
    epoch: int = -1
    incarnation: UUID | None = None
    feature_level: int = 0
    unsynced_lost: bool = False
    logs_lost: bool = False
    unclean_shutdown: bool = False
    in_controlled_shutdown: bool = False


@frozen
class PartitionImage:
    """Where one partition lives: its replicas (the preferred leader first), and who leads."""

    replicas: tuple[int, ...]
    leader_and_isr: LeaderAndIsr

    @property
    def leader(self) -> int:
        """Broker id of the leader, or −1."""
        return self.leader_and_isr.leader

    @property
    def leader_epoch(self) -> int:
        """The leader's epoch."""
        return self.leader_and_isr.leader_epoch

    @property
    def isr(self) -> tuple[int, ...]:
        """Broker ids of the in-sync replicas."""
        return self.leader_and_isr.isr


@define(eq=False)
class TopicImage:
    """
    A topic. Read it, never change it: only :class:`.ClusterMetadata` does.

    :ivar partitions: indexed by partition number.
    :ivar configs: the topic's overrides as strings, by Kafka's names.
    """

    name: str
    topic_id: UUID
    partitions: list[PartitionImage] = field(factory=list)
    configs: Mapping[str, str] = MappingProxyType({})
