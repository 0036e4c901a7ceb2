"""
The interface between a consumer and its group membership: Membership, its options, listener and errors.

A :class:`Membership` joins the group, stays in it, and rejoins by itself. It tells its :class:`GroupListener` which
partitions the consumer has, and awaits the listener's result before it goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from attrs import field, frozen
from twisted.internet.defer import Deferred

from logbus.client.group_metadata import CommittedOffset, GroupMetadata
from logbus.client.membership.subscription import Subscription
from logbus.client.validators import InvalidOption, checked, choice, flag, seconds, shown, text
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition

__all__ = [
    "CommitFailed",
    "GroupListener",
    "GroupMetadata",
    "GroupOptions",
    "Membership",
    "MembershipFailed",
    "ListenerResult",
]

_SENT = checked(seconds, positive=True, is_sent=True)

ListenerResult = Awaitable[Any] | None
"""A listener's result: something to await, or None."""


@frozen
class GroupOptions:
    """
    Options of a group member. Names are Kafka's, durations in seconds.

    :ivar group_instance_id: of a static member (KIP-345): it keeps its partitions if it comes back within its session.
    :ivar group_protocol: ``consumer`` is the protocol of KIP-848: the broker assigns partitions and sets the heartbeat
        interval.
    :ivar session_timeout: without a heartbeat for this long the coordinator removes the member (classic).
    :ivar heartbeat_interval: between heartbeats (classic).
    :ivar max_poll_interval: a consumer that does not ask for records for this long leaves the group; a rebalance waits
        for it as long.
    :ivar assignors: names, the preferred first, of which the members of a group choose one that all have (classic). A
        member keeps partitions during a rebalance only if all of its assignors are cooperative (KIP-429).
    :ivar group_remote_assignor: an assignor of the broker, such as ``uniform`` or ``range`` (consumer); None: its
        default.
    :ivar client_rack: used by assignors, and to fetch from nearby brokers.
    :ivar metadata_max_age: how often to look for new topics and partitions (classic).
    :ivar request_timeout: for which requests such as commits are retried.
    :ivar require_stable: before a partition is read, wait for the end of transactions that commit its offset (KIP-447);
        otherwise the records of these transactions are read again.
    """

    group_id: str = field(validator=checked(text))
    group_instance_id: str | None = field(default=None, validator=checked(text, optional=True))
    group_protocol: Literal["classic", "consumer"] = field(
        default="classic", validator=checked(choice, choices=("classic", "consumer"))
    )
    session_timeout: float = field(default=45.0, validator=_SENT)
    heartbeat_interval: float = field(default=3.0, validator=_SENT)
    max_poll_interval: float = field(default=300.0, validator=_SENT)
    assignors: Sequence[str] = field(default=("range", "cooperative-sticky"))
    group_remote_assignor: str | None = field(default=None, validator=checked(text, optional=True))
    client_rack: str | None = field(default=None, validator=checked(text, optional=True))
    metadata_max_age: float = field(default=300.0, validator=checked(seconds, positive=True))
    request_timeout: float = field(default=30.0, validator=checked(seconds))
    require_stable: bool = field(default=True, validator=checked(flag))

    @assignors.validator
    def _check_assignors(self, attribute: object, value: object) -> None:
        if isinstance(value, str) or not isinstance(value, Sequence) or not value:
            raise InvalidOption(f"assignors are a list of names, the preferred first, not {shown(value)}")

    def __attrs_post_init__(self) -> None:
        if self.group_protocol == "classic" and self.heartbeat_interval >= self.session_timeout:
            raise InvalidOption(
                f"heartbeat_interval is {self.heartbeat_interval:g}; it must be less than session_timeout, which is "
                f"{self.session_timeout:g}, and should be a third of it"
            )


class GroupListener:
    """
    Called when a consumer's partitions change (Kafka: ConsumerRebalanceListener). Override the methods of interest;
    each may return something to await.

    Calls never overlap, and the rebalance waits for each. So offsets that ``on_revoked`` commits are committed before
    another member reads on. A consumer calls ``on_revoked`` when the application has processed the records delivered of
    the partitions. Heartbeats continue meanwhile; a listener that takes longer than ``max_poll_interval`` loses the
    membership. If a listener fails, that is logged, and the membership continues.
    """

    def on_assigned(self, partitions: frozenset[TopicPartition]) -> ListenerResult:
        """These partitions are new. In the classic protocol also called with none, when a rebalance brought nothing."""
        return None

    def on_revoked(self, partitions: frozenset[TopicPartition]) -> ListenerResult:
        """These are revoked after this call; processed records of them can still be committed."""
        return None

    def on_lost(self, partitions: frozenset[TopicPartition]) -> ListenerResult:
        """These may belong to another member already: nothing can be committed. Default: calls ``on_revoked``."""
        return self.on_revoked(partitions)

    def on_failed(self, error: LogbusError) -> ListenerResult:
        """
        The membership has ended with an error that retrying does not help: a :class:`MembershipFailed`.

        ``on_lost`` was called before. :meth:`Membership.subscribe` starts again.
        """
        return None


class MembershipFailed(ApiError):
    """The membership has ended: fenced, refused, or misconfigured. The message says what to do."""


class CommitFailed(ApiError):
    """
    Offsets were not committed; the message says what to do.

    :ivar errors: the errors by partition; the other partitions were committed.
    """

    def __init__(self, code: ErrorCode, message: str, errors: Mapping[TopicPartition, ApiError]) -> None:
        super().__init__(code, message)
        self.errors = dict(errors)


class Membership(Protocol):
    """
    A consumer's membership in a group. Made by :func:`~logbus.client.membership.membership_of`.

    :ivar options: as given.
    """

    options: GroupOptions

    @property
    def state(self) -> str:
        """One word for display: ``unjoined``, ``joining``, ``stable``, ...; differs between protocols."""
        ...

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """
        The partitions that the listener was told of: from before ``on_assigned`` is called until the result of
        ``on_revoked`` has fired.
        """
        ...

    @property
    def metadata(self) -> GroupMetadata:
        """The current identity in the group; generation −1 without one. Read it anew for each commit."""
        ...

    @property
    def last_metadata(self) -> GroupMetadata:
        """
        The current or last identity. After the membership was lost it keeps its generation and member id here, so that
        the coordinator rejects commits made with it. Generation 0 before the first membership.
        """
        ...

    def subscribe(self, subscription: Subscription) -> None:
        """Subscribe to this from now on: join, or rebalance. Returns at once; the listener is called later."""
        ...

    def unsubscribe(self) -> Deferred[None]:
        """Give up all partitions and leave; fires when that is done. :meth:`subscribe` starts again."""
        ...

    def polled(self) -> None:
        """
        Note that the application asked for records. Call it each time, also while it waits for records, at least every
        ``max_poll_interval``. A member that has left because it was late joins again.
        """
        ...

    def rejoin(self, reason: str) -> None:
        """Trigger a rebalance (classic); does nothing in the consumer protocol, where the broker decides."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> Deferred[None]:
        """
        Commit as the current member. During a rebalance, wait for its end, and commit the partitions that are still
        assigned.

        :raise CommitFailed: (in the Deferred) the group has rebalanced, a partition is not assigned (any more), or its
            offset is refused. The others are committed.
        :raise LogbusError: no coordinator could be reached within ``request_timeout``.
        """
        ...

    def unassigned_errors(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, ApiError]:
        """The errors for partitions that are not assigned any more, as in :class:`CommitFailed`."""
        ...

    def committed(self, partitions: Sequence[TopicPartition]) -> Deferred[dict[TopicPartition, CommittedOffset | None]]:
        """
        The group's committed offsets for partitions; None: no offset.

        :raise ApiError: (in the Deferred) the broker refuses, or transactions stay open for ``request_timeout``.
        """
        ...

    def close(self, *, leave: bool | None = None) -> Deferred[None]:
        """
        End the membership; fires when the listener was called (``on_revoked``) and the coordinator was told. Never
        fails.

        :param leave: send LeaveGroup, so that others take over at once; default: unless the member is static.
        """
        ...
