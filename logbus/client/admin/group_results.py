"""Consumer groups and their members, as the admin client lists and describes them."""

from __future__ import annotations

from attrs import frozen

from logbus.client.cluster.cluster import Node
from logbus.model import TopicPartition


@frozen
class ListedGroup:
    """
    A group in the list of its coordinator.

    :ivar protocol_type: ``consumer`` for consumers, ``share`` for share consumers, ``streams`` for applications of
        Kafka Streams in streams groups; empty if it never had members.
    :ivar state: such as ``Stable``; empty if brokers do not report it (before Kafka 2.6).
    :ivar type: ``classic``, ``consumer``, ``share`` or ``streams``; empty if brokers do not report it (before Kafka
        3.8).
    :ivar coordinator: the broker's id.
    """

    group_id: str
    protocol_type: str
    state: str
    type: str
    coordinator: int


@frozen
class GroupMember:
    """
    A member of a group.

    :ivar instance_id: its ``group.instance.id``, if it has one.
    :ivar host: the address it connects from.
    :ivar assignment: its partitions, in order; empty if they are not known: see ``assignment_bytes``. In a streams
        group those that its active tasks read.
    :ivar subscription: the topics it subscribes to by name.
    :ivar pattern: the regular expression it subscribes with, if any (KIP-848).
    :ivar target: its target assignment (KIP-848); None in the classic protocol.
    :ivar epoch: −1 in the classic protocol.
    :ivar metadata_bytes: its encoded subscription; empty with KIP-848.
    :ivar assignment_bytes: its encoded assignment; empty with KIP-848.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...] = ()
    subscription: tuple[str, ...] = ()
    pattern: str | None = None
    target: tuple[TopicPartition, ...] | None = None
    epoch: int = -1
    metadata_bytes: bytes = b""
    assignment_bytes: bytes = b""


@frozen
class GroupDescription:
    """
    A group.

    :ivar state: such as ``Stable`` or ``Empty``.
    :ivar type: ``classic``, ``consumer``, ``share`` or ``streams``.
    :ivar protocol_type: as in :class:`ListedGroup`.
    :ivar assignor: the assignment strategy; empty without members.
    :ivar coordinator: its coordinator.
    :ivar epoch: incremented when members, subscriptions or topics change (KIP-848); −1 for a classic group.
    :ivar assignment_epoch: the epoch of the target assignment; −1 for a classic group.
    """

    group_id: str
    state: str
    type: str
    protocol_type: str
    assignor: str
    coordinator: Node
    members: tuple[GroupMember, ...]
    epoch: int = -1
    assignment_epoch: int = -1

    @property
    def is_active(self) -> bool:
        """Whether it has members, or may get some at any moment, which then commit their own offsets."""
        return bool(self.members) or self.state not in ("Empty", "Dead")
