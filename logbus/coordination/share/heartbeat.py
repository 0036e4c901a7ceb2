"""ShareGroupHeartbeat as a value, its response, and the validation that does not depend on the group. Pure."""

from __future__ import annotations

from attrs import evolve, frozen

from logbus.coordination.consumer.heartbeat import MAX_SUBSCRIBED_TOPICS
from logbus.coordination.consumer.partition_sets import Partitions
from logbus.coordination.share.share_group_member import JOINING, LEFT, ShareGroupMember
from logbus.errors import ApiError, ErrorCode

MAX_MEMBER_ID = 36
"""Upper bound of the length of a member id, in characters; Kafka has it for members of share groups only."""


@frozen
class ShareHeartbeat:
    """
    A ShareGroupHeartbeat request. None means "unchanged".

    :ivar epoch: 0 to join, −1 to leave, else the member's epoch.
    """

    member_id: str
    epoch: int
    rack_id: str | None = None
    topics: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = ""

    def applied_to(self, member: ShareGroupMember) -> ShareGroupMember:
        """The member with the fields that are set."""
        return evolve(
            member,
            rack_id=member.rack_id if self.rack_id is None else self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            topics=member.topics if self.topics is None else tuple(sorted(set(self.topics))),
        )


@frozen
class ShareHeartbeatResult:
    """
    A ShareGroupHeartbeat response.

    :ivar assignment: the partitions that the member has from now on; None: unchanged.
    """

    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


def check_heartbeat(heartbeat: ShareHeartbeat) -> None:
    """
    Refuse a heartbeat that is invalid for any group.

    :raise ApiError: INVALID_REQUEST.
    """
    if not heartbeat.member_id.strip():
        raise _invalid("the member id is empty")
    if len(heartbeat.member_id) > MAX_MEMBER_ID:
        raise _invalid(f"the member id has {len(heartbeat.member_id)} characters; at most {MAX_MEMBER_ID} are allowed")
    if heartbeat.rack_id is not None and not heartbeat.rack_id.strip():
        raise _invalid("the rack id is empty: leave it out instead")
    if heartbeat.epoch < LEFT:
        raise _invalid(f"the member epoch is {heartbeat.epoch}: none is below {LEFT}")
    if heartbeat.epoch == JOINING and not heartbeat.topics:
        raise _invalid("a member that joins must give its topics")
    if heartbeat.topics is not None and len(heartbeat.topics) > MAX_SUBSCRIBED_TOPICS:
        raise _invalid(f"a member may name {MAX_SUBSCRIBED_TOPICS} topics, not {len(heartbeat.topics)}")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
