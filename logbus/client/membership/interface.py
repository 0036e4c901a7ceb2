"""
The interface between a consumer and its group membership: the options, the listener and errors of a
:class:`~logbus.client.membership.base_membership.Membership`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from attrs import field, frozen

from logbus.client.group_metadata import GroupMetadata
from logbus.client.validators import InvalidOption, checked, choice, flag, names_options, seconds, shown, text
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition

__all__ = [
    "CommitFailed",
    "GroupArguments",
    "GroupListener",
    "GroupMetadata",
    "GroupOptions",
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


GroupOptions.__init__ = names_options("a group's member")(GroupOptions.__init__)  # type: ignore[method-assign]


class GroupArguments(TypedDict, total=False):
    """Options of a consumer that are those of its group's member: :class:`GroupOptions` by the same names."""

    group_instance_id: str | None
    group_protocol: Literal["classic", "consumer"]
    session_timeout: float
    heartbeat_interval: float
    max_poll_interval: float
    assignors: Sequence[str]
    group_remote_assignor: str | None
    metadata_max_age: float
    request_timeout: float
    require_stable: bool


class GroupListener:
    """
    Called when a consumer's partitions change (Kafka: ConsumerRebalanceListener). Override the methods of interest;
    each may return something to await.

    Calls never overlap, and the rebalance waits for each. So offsets that ``on_revoked`` commits are committed before
    another member reads on. The end of the consumer waits for them, too: a listener that calls ``close`` must not wait
    for it. A consumer calls ``on_revoked`` when the application has processed the records delivered of
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
