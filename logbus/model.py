"""
The immutable values that all packages share. Pure.

Values used as dictionary keys on the hot path are named tuples, whose hash and equality run in C.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, TypeVar

from attrs import frozen

T = TypeVar("T")

LEGAL_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"

INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, REMOTE_LOG_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC})
"""Topics with the state of brokers, written by brokers only."""

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""The log of Kafka's controllers, which clients of Kafka take for no topic of theirs; there is none here."""

NO_OFFSET = -1
NO_EPOCH = -1
NO_TIMESTAMP = -1


class TopicPartition(NamedTuple):
    """A partition of a topic, as in ``orders-3``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def group_by_topic(values: Iterable[tuple[TopicPartition, T]]) -> dict[str, list[T]]:
    """Group values of partitions by topic, in the given order."""
    found: dict[str, list[T]] = {}
    for (topic, _), value in values:
        found.setdefault(topic, []).append(value)
    return found


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of partitions by topic, in the given order."""
    return group_by_topic((each, each.partition) for each in partitions)


class OffsetAndEpoch(NamedTuple):
    """An offset and its leader epoch (−1: unknown)."""

    offset: int
    epoch: int


class TimestampOffset(NamedTuple):
    """A record found by its timestamp: milliseconds since 1970, its offset, and the leader epoch of its batch."""

    timestamp: int
    offset: int
    epoch: int


@frozen
class Endpoint:
    """The address of a broker for clients of one listener."""

    listener: str
    host: str
    port: int
    protocol: str = "kafka"


@frozen
class LeaderAndIsr:
    """
    The leader and the in-sync replicas of a partition (Kafka: LeaderAndIsr).

    :ivar leader: broker id, or −1 if the partition is offline.
    :ivar leader_epoch: increases by one with every election.
    :ivar isr: broker ids of the in-sync replicas.
    :ivar controller_epoch: epoch of the controller that wrote this.
    :ivar version: the znode's version; compare-and-set token for the next change.
    :ivar eligible: broker ids outside the ISR that have every committed record nevertheless, since the ISR has been
        smaller than ``min.insync.replicas`` since they left it (KIP-966's eligible leader replicas). While there are
        any, the leader's high watermark does not advance, whatever minimum the leader has.
    :ivar unproven: broker ids that were in the ISR, or eligible, when they returned after an unclean shutdown: they may
        have lost records from their disks. One of them is elected only if no other replica can be, when all of them are
        back, and then the one with the longest log (KIP-966's last known eligible leader replicas). They are removed
        when the leader has changed the ISR, and so is alive. Only the controller keeps them.
    :ivar unclean_epoch: the epoch of the last unclean election, −1 if there was none: records committed before it may
        be lost, and followers may have to truncate them. The election of a leader that returned without its unsynced,
        unacknowledged records also counts.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int = 0
    version: int = 0
    eligible: tuple[int, ...] = ()
    unclean_epoch: int = NO_EPOCH
    unproven: tuple[int, ...] = ()


class LogEnd(NamedTuple):
    """The end of a log: the leader epoch of its last record, and its end offset. The larger has more records (Raft)."""

    epoch: int
    offset: int


class LogEndReport(NamedTuple):
    """The end of a log whose partition has no leader; ``leader_epoch`` is that of the leaderless state."""

    leader_epoch: int
    end: LogEnd


@frozen
class ReplicaReport:
    """
    A broker's report that a replica lacks committed records, or holds damaged ones.

    :ivar replica: the broker id of the replica: the reporter's, or its leader's.
    :ivar leader_epoch: the leader epoch known to the reporter.
    :ivar complete: whether the reporter's own replica, reported before, is complete again.
    :ivar reason: for the log.
    """

    topic_partition: TopicPartition
    replica: int
    leader_epoch: int
    reason: str = ""
    complete: bool = False


@frozen
class IsrChange:
    """
    A leader's request to change the in-sync replicas of a partition (KIP-497).

    :ivar leader_epoch: the leader's epoch, compared with the current one.
    :ivar version: the :attr:`LeaderAndIsr.version` that the change is based on, compared, too.
    :ivar isr: the requested in-sync replicas.
    :ivar epochs: the broker epoch with which each of them, in the same order, has fetched (KIP-903): after a restart it
        may have fewer records. −1 or missing: unknown; a new member must have one.
    """

    topic_partition: TopicPartition
    leader_epoch: int
    version: int
    isr: tuple[int, ...]
    epochs: tuple[int, ...] = ()

    def epoch_of(self, broker_id: int) -> int:
        """Return the broker epoch with which a member has fetched, −1 if unknown."""
        return dict(zip(self.isr, self.epochs, strict=False)).get(broker_id, NO_EPOCH)


def topic_name_problem(name: str) -> str | None:
    """
    Return why ``name`` is not a valid topic name, or None if it is (Kafka: Topic.validate).
    """
    if not name:
        return "the topic name is empty"
    if name in (".", ".."):
        return f"the topic name cannot be {name!r}"
    if len(name) > 249:
        return f"the topic name has {len(name)} characters; at most 249 are allowed"
    if not LEGAL_TOPIC_NAME.fullmatch(name):
        return f"the topic name {name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None


@lru_cache(maxsize=10_000)
def known_uuid(raw: bytes) -> uuid.UUID:
    """The UUID of these 16 bytes, which come again and again: making one takes 2 µs."""
    return uuid.UUID(bytes=raw)


def new_topic_id(random_bytes: bytes) -> uuid.UUID:
    """Return a random (version 4) topic id made from 16 random bytes, never a reserved one."""
    return uuid.UUID(bytes=random_bytes, version=4)
