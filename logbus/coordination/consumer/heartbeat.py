"""ConsumerGroupHeartbeat as a value, its response, and the validation that does not depend on the group. Pure."""

from __future__ import annotations

from attrs import frozen

from logbus.coordination.consumer.assignors import ASSIGNORS
from logbus.coordination.consumer.consumer_group_member import AWAY, JOINING, LEFT
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

    @property
    def is_full(self) -> bool:
        """Whether all fields are set, since the member joins or missed a response; then the response is full, too."""
        if self.epoch == JOINING:
            return True
        subscribed = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != -1 and subscribed and self.owned is not None


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


def check_heartbeat(beat: ConsumerHeartbeat) -> None:
    """
    Refuse a heartbeat that is invalid for any group.

    :raise ApiError: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION.
    """
    for value, name in ((beat.instance_id, "instance id"), (beat.rack_id, "rack id")):
        if value is not None and not value.strip():
            raise _invalid(f"the {name} is empty: leave it out instead")
    if beat.epoch < AWAY:
        raise _invalid(f"the member epoch is {beat.epoch}: none is below {AWAY}")
    if not beat.member_id.strip() and (beat.epoch != JOINING or beat.requires_member_id):
        raise _invalid("the member id is empty")
    if beat.epoch == JOINING:
        _check_joining(beat)
    if beat.epoch == AWAY and beat.instance_id is None:
        raise _invalid(f"the member epoch {AWAY} is for members with an instance id")
    if beat.epoch in (LEFT, AWAY):
        return
    if beat.topics is not None and len(beat.topics) > MAX_SUBSCRIBED_TOPICS:
        raise _invalid(
            f"a member may name {MAX_SUBSCRIBED_TOPICS} topics, not {len(beat.topics)}; "
            "a regular expression can stand for more"
        )
    if beat.assignor is not None and beat.assignor not in ASSIGNORS:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"there is no assignor {beat.assignor!r}; there are {', '.join(sorted(ASSIGNORS))}",
        )
    if beat.regex:
        compile_expression(beat.regex)


def _check_joining(beat: ConsumerHeartbeat) -> None:
    if beat.rebalance_timeout_ms < 0:
        raise _invalid("a member that joins must give a rebalance timeout")
    if beat.owned is None or beat.owned:
        raise _invalid("a member that joins must say that it owns no partitions")
    if not beat.topics and not beat.regex:
        raise _invalid("a member that joins must subscribe to topics or to a regular expression")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
