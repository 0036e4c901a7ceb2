"""
The frozen values every package speaks in.

Values that serve as dictionary keys on the hot path are named tuples: their hash and equality run in C.
"""

from __future__ import annotations

import re
import uuid
from typing import NamedTuple

from attrs import frozen

LEGAL_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics that brokers keep their state in, and only they write to."""

NO_OFFSET = -1
NO_EPOCH = -1
NO_TIMESTAMP = -1


class TopicPartition(NamedTuple):
    """One partition of one topic, as in ``orders-3``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetAndEpoch(NamedTuple):
    """An offset with the leader epoch in force there (−1: unknown)."""

    offset: int
    epoch: int


class TimestampOffset(NamedTuple):
    """A record found by its timestamp: milliseconds since 1970, its offset, and the leader epoch of its batch."""

    timestamp: int
    offset: int
    epoch: int


@frozen
class Endpoint:
    """Where clients reach a broker on one listener."""

    listener: str
    host: str
    port: int
    protocol: str = "kafka"


@frozen
class LeaderAndIsr:
    """
    Who leads a partition and which replicas are in sync.

    :ivar leader: broker id, or −1 when the partition is offline.
    :ivar leader_epoch: grows by one with every election.
    :ivar isr: broker ids of the in-sync replicas.
    :ivar controller_epoch: epoch of the controller that wrote this.
    :ivar version: the znode's version; compare-and-set token for the next change.
    :ivar eligible: broker ids outside the ISR that have every committed record all the same, since the ISR has been
        smaller than ``min.insync.replicas`` from when they left it (KIP-966's eligible leader replicas). While there
        are any, a leader's high watermark stands still, whatever the leader takes for the minimum.
    :ivar unproven: broker ids of those that were in the ISR, or eligible, when they came back after an unclean stop:
        they may lack records that were on their disks. One of them is elected only when no other can be, once all of
        them are back, and the one with the longest log then (KIP-966's last known eligible leader replicas). They are
        forgotten once the leader has shown by a change of the ISR that it lives. The controller alone keeps them.
    :ivar unclean_epoch: the leader epoch that an unclean election began last, −1 if none ever did: what was committed
        before it may be gone, and followers that have it may have to cut it off. The election of a leader that came
        back without what it had not synced counts here, too, where that was never acknowledged.
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
    """How far a log goes: the leader epoch of its last record, and its end offset. The larger one has more (Raft)."""

    epoch: int
    offset: int


class LogEndReport(NamedTuple):
    """How far a log goes while its partition has no leader; ``leader_epoch``: of the state that says so."""

    leader_epoch: int
    end: LogEnd


@frozen
class ReplicaReport:
    """
    A broker's report that a replica lacks committed records, or holds damaged ones.

    :ivar replica: the broker id of the replica: the reporter's own, or its leader's.
    :ivar leader_epoch: the leader epoch that the reporter knows.
    :ivar complete: the reporter's own replica, reported before, has everything again.
    :ivar reason: for people.
    """

    topic_partition: TopicPartition
    replica: int
    leader_epoch: int
    reason: str = ""
    complete: bool = False


@frozen
class IsrChange:
    """
    A leader's wish to change the in-sync replicas of a partition (KIP-497).

    :ivar leader_epoch: in which it leads; ``version``: of the state that the wish builds on
        (:attr:`LeaderAndIsr.version`): a compare-and-set with both.
    :ivar isr: the in-sync replicas that it wants.
    :ivar epochs: the broker epoch in which each of them, in the same order, has fetched (KIP-903): in another life it
        may have less. −1, or left out: it is not known; who joins must have one.
    """

    topic_partition: TopicPartition
    leader_epoch: int
    version: int
    isr: tuple[int, ...]
    epochs: tuple[int, ...] = ()

    def epoch_of(self, broker_id: int) -> int:
        """The broker epoch in which a member has fetched, −1 if it is not known."""
        return dict(zip(self.isr, self.epochs, strict=False)).get(broker_id, NO_EPOCH)


def topic_name_problem(name: str) -> str | None:
    """
    Say why ``name`` cannot name a topic, or None if it can (Kafka's ``Topic.validate``).
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


def new_topic_id(random_bytes: bytes) -> uuid.UUID:
    """A random (version 4) topic id out of 16 random bytes, never one that clients reserve."""
    return uuid.UUID(bytes=random_bytes, version=4)
