"""
The changes of a cluster's metadata, of which subscribers are told. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from attrs import frozen

from logbus.cluster.images import BrokerImage, PartitionImage


@frozen
class TopicCreated:
    """A topic has appeared, with so many partitions."""

    topic: str
    topic_id: UUID
    partitions: int


@frozen
class TopicDeleted:
    """A topic is gone."""

    topic: str
    topic_id: UUID


@frozen
class PartitionsAdded:
    """A topic has more partitions: so many now."""

    topic: str
    partitions: int


@frozen
class PartitionsChanged:
    """Leaders, in-sync replicas or replicas of partitions, by their numbers, have changed."""

    topic: str
    partitions: tuple[tuple[int, PartitionImage], ...]


@frozen
class TopicConfigsChanged:
    """Overrides of a topic have changed; the values of some may be secret."""

    topic: str
    names: tuple[str, ...]


@frozen
class GroupConfigsChanged:
    """Overrides of a consumer group have changed."""

    group: str
    names: tuple[str, ...]


@frozen
class BrokerConfigsChanged:
    """Overrides of a broker have changed; None: those of all brokers."""

    broker: int | None
    names: tuple[str, ...]


@frozen
class BrokerJoined:
    """A broker has come, or come back."""

    broker: BrokerImage


@frozen
class BrokerChanged:
    """A broker that stays says something else of itself, such as that it shuts down."""

    broker: BrokerImage


@frozen
class BrokerLeft:
    """A broker is gone."""

    broker_id: int


@frozen
class ControllerChanged:
    """Another broker is the controller; −1: none."""

    broker_id: int


MetadataChange = (
    TopicCreated
    | TopicDeleted
    | PartitionsAdded
    | PartitionsChanged
    | TopicConfigsChanged
    | GroupConfigsChanged
    | BrokerConfigsChanged
    | BrokerJoined
    | BrokerChanged
    | BrokerLeft
    | ControllerChanged
)


def differs(one: PartitionImage, other: PartitionImage) -> bool:
    """Whether two images of a partition differ in what is told."""
    if one is other:
        return False
    return (one.leader, one.leader_epoch, one.isr, one.replicas) != (
        other.leader,
        other.leader_epoch,
        other.isr,
        other.replicas,
    )


def changed_names(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of settings that differ."""
    if before == after:
        return ()
    return tuple(sorted(name for name in {*before, *after} if before.get(name) != after.get(name)))


def broker_changes(
    before: Mapping[int, BrokerImage], after: Mapping[int, BrokerImage]
) -> list[BrokerJoined | BrokerChanged | BrokerLeft]:
    """Return how the live brokers have changed; who was registered anew has come back."""
    told: list[BrokerJoined | BrokerChanged | BrokerLeft] = [
        BrokerLeft(broker_id) for broker_id in sorted(before.keys() - after.keys())
    ]
    for broker_id, image in sorted(after.items()):
        known = before.get(broker_id)
        if known is None or known.epoch != image.epoch:
            told.append(BrokerJoined(image))
        elif known != image:
            told.append(BrokerChanged(image))
    return told
