"""
What a consumer plugs in to be a member of a group.

A :class:`Membership` joins, stays in, and comes back to a group by itself; it tells its :class:`GroupListener` which
partitions the consumer has, and waits for what the listener returns before it goes on.
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
"""What a listener returns: something to wait for, or None."""


@frozen
class GroupOptions:
    """
    How one is a member. Names are Kafka's, durations in seconds.

    :ivar group_instance_id: of a static member (KIP-345): it keeps its place when it comes back within its session.
    :ivar group_protocol: ``consumer`` is KIP-848's: the broker assigns, and says how often to send a heartbeat.
    :ivar session_timeout: after so long without a heartbeat the coordinator takes a member for dead (classic).
    :ivar heartbeat_interval: between heartbeats (classic).
    :ivar max_poll_interval: a consumer that does not ask for records for so long leaves the group; others wait as
        long for it in a rebalance.
    :ivar assignors: names, the preferred first, among which the members of a group agree (classic). Only if all of a
        member's are cooperative, it keeps in a rebalance what it goes on to read (KIP-429).
    :ivar group_remote_assignor: of the broker's, such as ``uniform`` or ``range`` (consumer); None: its default.
    :ivar client_rack: for assignors, and for brokers nearby.
    :ivar metadata_max_age: how often to look for new topics and partitions (classic).
    :ivar request_timeout: for which something is tried again, such as a commit.
    :ivar require_stable: wait for the end of transactions that commit offsets before a partition is read on
        (KIP-447); otherwise what these transactions are about is read again.
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
    Hears which partitions a consumer has. Override what is of interest; each may return something to wait for.

    The calls come one after another, never two at a time, and the group's rebalance waits for each: so what
    ``on_revoked`` commits is committed before another member reads on. A consumer calls it when the application is done
    with the records that it got of the partitions. Heartbeats go on meanwhile; a listener that
    takes longer than ``max_poll_interval`` costs the membership. One that fails is logged, and the membership goes on.
    """

    def on_assigned(self, partitions: frozenset[TopicPartition]) -> ListenerResult:
        """These are new. In the classic protocol it is also called with none, when a rebalance brought nothing."""
        return None

    def on_revoked(self, partitions: frozenset[TopicPartition]) -> ListenerResult:
        """These are given up after this call; what was processed of them can still be committed."""
        return None

    def on_lost(self, partitions: frozenset[TopicPartition]) -> ListenerResult:
        """These may be another's already: nothing can be committed any more. Default: as ``on_revoked``."""
        return self.on_revoked(partitions)

    def on_failed(self, error: LogbusError) -> ListenerResult:
        """
        The membership has ended for a reason that trying again does not help: a :class:`MembershipFailed`.

        ``on_lost`` was called before. :meth:`Membership.subscribe` begins anew.
        """
        return None


class MembershipFailed(ApiError):
    """A member cannot be one any more: fenced, refused, or misconfigured. The message says what to do."""


class CommitFailed(ApiError):
    """
    Offsets were not committed; the message says what to do.

    :ivar errors: what was wrong with which partitions; those that are not here are committed.
    """

    def __init__(self, code: ErrorCode, message: str, errors: Mapping[TopicPartition, ApiError]) -> None:
        super().__init__(code, message)
        self.errors = dict(errors)


class Membership(Protocol):
    """
    One consumer's place in a group. Made by :func:`~logbus.client.membership.membership_of`.

    :ivar options: as given.
    """

    options: GroupOptions

    @property
    def state(self) -> str:
        """One word, for people: ``unjoined``, ``joining``, ``stable``, ...; differs between protocols."""
        ...

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """
        The partitions that the listener was told of. They are in here before ``on_assigned`` is called, and until what
        ``on_revoked`` returned has fired.
        """
        ...

    @property
    def metadata(self) -> GroupMetadata:
        """Who we are now; generation −1 while we are nobody. To be read for each commit anew."""
        ...

    @property
    def last_metadata(self) -> GroupMetadata:
        """
        Who we are, or were last: a member that was lost keeps its generation and id here, so that the coordinator
        refuses what is committed in its name. Generation 0 before we were first a member.
        """
        ...

    def subscribe(self, subscription: Subscription) -> None:
        """Want this from now on: join, or have the group rebalance. Returns at once; the listener hears the rest."""
        ...

    def unsubscribe(self) -> Deferred[None]:
        """Give up everything and leave; fires when that is done. :meth:`subscribe` begins anew."""
        ...

    def polled(self) -> None:
        """
        The application asked for records: it is alive. To be called each time it does; also while it waits for some,
        at least every ``max_poll_interval``. Who left because it was late joins again.
        """
        ...

    def rejoin(self, reason: str) -> None:
        """Have the group rebalance (classic); in the consumer protocol nothing, the broker knows best."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> Deferred[None]:
        """
        Commit as the member one is now. If a rebalance is in progress, its end is waited for: what is still one's own
        then is committed.

        :raise CommitFailed: (in the Deferred) the group has moved on, a partition is not assigned (any more), or its
            offset is refused. The others are committed.
        :raise LogbusError: no coordinator could be reached within ``request_timeout``.
        """
        ...

    def not_ours(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, ApiError]:
        """The errors of a :class:`CommitFailed` for partitions that are not assigned any more."""
        ...

    def committed(self, partitions: Sequence[TopicPartition]) -> Deferred[dict[TopicPartition, CommittedOffset | None]]:
        """
        What the group committed for partitions; None for nothing.

        :raise ApiError: (in the Deferred) the broker refuses, or transactions stay open for ``request_timeout``.
        """
        ...

    def close(self, *, leave: bool | None = None) -> Deferred[None]:
        """
        End; fires when the listener was told (``on_revoked``) and the coordinator knows. Never fails.

        :param leave: tell the coordinator, so that others take over at once; default: members that are not static do.
        """
        ...
