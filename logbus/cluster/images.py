"""
Brokers, topics and partitions as the metadata cache holds them: values. Pure.
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

    :ivar endpoints: addresses for clients, by listener name.
    :ivar epoch: the czxid of its registration; grows with every restart.
    :ivar incarnation: identifies its process; clients never see it.
    :ivar feature_level: of the protocol between brokers.
    :ivar unclean_shutdown: it started after an unclean stop; see :class:`.Registration`.
    :ivar in_controlled_shutdown: it is shutting down, and becomes leader of nothing.
    :ivar unsynced_lost: it started without its unsynced records; see :class:`.Registration`.
    :ivar logs_lost: it started with a new log directory; see :class:`.Registration`.
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
    """A partition: its replicas (the preferred leader first), leader and ISR."""

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
    A topic. Read only; :class:`.ClusterMetadata` changes it.

    :ivar partitions: indexed by partition number.
    :ivar configs: the topic's overrides as strings, by Kafka's names.
    """

    name: str
    topic_id: UUID
    partitions: list[PartitionImage] = field(factory=list)
    configs: Mapping[str, str] = MappingProxyType({})
