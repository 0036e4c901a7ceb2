"""ConsumerGroupHeartbeat as a value, its response, and the validation that does not depend on the group. Pure."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve, field, frozen

from logbus.coordination.consumer.assignors import ASSIGNORS
from logbus.coordination.consumer.consumer_group_member import AWAY, JOINING, LEFT, ConsumerGroupMember
from logbus.coordination.consumer.partition_sets import Partitions
from logbus.coordination.consumer.regular_expressions import compile_expression
from logbus.errors import ApiError, ErrorCode


@frozen
class ConsumerHeartbeat:
    """
    A ConsumerGroupHeartbeat request. None, and −1 for the timeout, mean "unchanged".

    :ivar epoch: 0 to join, −1 to leave, −2 to leave temporarily, else the member's epoch.
    :ivar regex: an empty string removes the subscription to a regular expression.
    :ivar owned: the partitions that the member may be reading.
    :ivar sees: whether the member may know of a topic, which a regular expression only then stands for; None: of all.
    :ivar requires_member_id: whether members generate their own ids (KIP-1082), from version 1 on.
    """

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""
    requires_member_id: bool = True
    sees: Callable[[str], bool] | None = field(default=None, eq=False, repr=False)

    @property
    def is_full(self) -> bool:
        """Whether all fields are set, since the member joins or missed a response; then the response is full, too."""
        if self.epoch == JOINING:
            return True
        subscribed = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != -1 and subscribed and self.owned is not None

    def applied_to(self, member: ConsumerGroupMember) -> ConsumerGroupMember:
        """The member with the fields that are set; it uses the consumer protocol from now on."""
        return evolve(
            member,
            instance_id=member.instance_id if self.instance_id is None else self.instance_id,
            rack_id=member.rack_id if self.rack_id is None else self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            topics=member.topics if self.topics is None else tuple(sorted(set(self.topics))),
            regex=member.regex if self.regex is None else self.regex or None,
            rebalance_timeout_ms=member.rebalance_timeout_ms
            if self.rebalance_timeout_ms == -1
            else self.rebalance_timeout_ms,
            assignor=member.assignor if self.assignor is None else self.assignor,
            classic=None,
        )


@frozen
class ConsumerHeartbeatResult:
    """
    A ConsumerGroupHeartbeat response.

    :ivar assignment: the partitions that the member may read from now on; None: unchanged.
    """

    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


MAX_SUBSCRIBED_TOPICS = 10_000
"""Limit of the topics that a member may name: all of them are checked whenever a subscription changes."""


def check_heartbeat(heartbeat: ConsumerHeartbeat) -> None:
    """
    Refuse a heartbeat that is invalid for any group.

    :raise ApiError: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION.
    """
    for value, name in ((heartbeat.instance_id, "instance id"), (heartbeat.rack_id, "rack id")):
        if value is not None and not value.strip():
            raise _invalid(f"the {name} is empty: leave it out instead")
    if heartbeat.epoch < AWAY:
        raise _invalid(f"the member epoch is {heartbeat.epoch}: none is below {AWAY}")
    if not heartbeat.member_id.strip() and (heartbeat.epoch != JOINING or heartbeat.requires_member_id):
        raise _invalid("the member id is empty")
    if heartbeat.epoch == JOINING:
        _check_joining(heartbeat)
    if heartbeat.epoch == AWAY and heartbeat.instance_id is None:
        raise _invalid(f"the member epoch {AWAY} is for members with an instance id")
    if heartbeat.epoch in (LEFT, AWAY):
        return
    if heartbeat.topics is not None and len(heartbeat.topics) > MAX_SUBSCRIBED_TOPICS:
        raise _invalid(
            f"a member may name {MAX_SUBSCRIBED_TOPICS} topics, not {len(heartbeat.topics)}; "
            "a regular expression can stand for more"
        )
    if heartbeat.assignor is not None and heartbeat.assignor not in ASSIGNORS:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"there is no assignor {heartbeat.assignor!r}; there are {', '.join(sorted(ASSIGNORS))}",
        )
    if heartbeat.regex:
        compile_expression(heartbeat.regex)


def _check_joining(heartbeat: ConsumerHeartbeat) -> None:
    if heartbeat.rebalance_timeout_ms < 0:
        raise _invalid("a member that joins must give a rebalance timeout")
    if heartbeat.owned is None or heartbeat.owned:
        raise _invalid("a member that joins must say that it owns no partitions")
    # Kafka's own client joins with no topics at all when none that it has heard of matches its pattern yet.
    if heartbeat.topics is None and heartbeat.regex is None:
        raise _invalid("a member that joins must give its topics, which may be none yet, or a regular expression")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
