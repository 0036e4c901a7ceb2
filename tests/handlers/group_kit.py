"""Clients that are members of classic groups, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define

from logbus.wire.messages.groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    ListedGroup,
    ListGroupsRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from logbus.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.handlers.kit import Client, HandlerCase


@define(eq=False)
class Member:
    """
    A client in a group, at the newest versions.

    :ivar told: its last JoinGroup response.
    """

    client: Client
    group_id: str = "g"
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    told: Any = None

    def send_join(self, version: int = 9, protocols: Mapping[str, bytes] | None = None, **given: Any) -> None:
        request: dict[str, Any] = {
            "group_id": self.group_id,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocols": [
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in (protocols or {"range": b"meta"}).items()
            ],
        }
        self.client.send(JoinGroupRequest(**{**request, **given}), version)

    def answer(self) -> Any:
        """The answer that came, or None."""
        for _ in range(5):
            answers = self.client.answers()
            if answers:
                (found,) = answers
                return found
            self.client.turn()
        return None

    def joined(self) -> Any:
        """The answer to a JoinGroup that must have come; it is remembered."""
        self.told = self.answer()
        assert self.told is not None, "JoinGroup was not answered"
        self.member_id = self.told.member_id or self.member_id
        self.generation = self.told.generation_id
        return self.told

    def get_id(self) -> str:
        """First contact: be given an id to come back with."""
        self.send_join()
        answer = self.joined()
        assert answer.error_code == 79, answer
        return self.member_id

    @property
    def leads(self) -> bool:
        return bool(self.told.leader == self.member_id)

    def send_sync(self, assignments: Mapping[str, bytes] | None = None, version: int = 5, **given: Any) -> None:
        request: dict[str, Any] = {
            "group_id": self.group_id,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocol_name": (self.told and self.told.protocol_name) or "range",
            "assignments": [
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        }
        self.client.send(SyncGroupRequest(**{**request, **given}), version)

    def heartbeat(self, version: int = 4, **given: Any) -> int:
        request: dict[str, Any] = {
            "group_id": self.group_id,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        return int(self.client.ask(HeartbeatRequest(**{**request, **given}), version).error_code)

    def leave(self, version: int = 5) -> Any:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        if version < 3:
            return self.client.ask(LeaveGroupRequest(group_id=self.group_id, member_id=self.member_id), version)
        return self.client.ask(LeaveGroupRequest(group_id=self.group_id, members=[identity]), version)

    def commit(self, offset: int, partition: int = 0, **given: Any) -> int:
        request: dict[str, Any] = {
            "group": self.group_id,
            "generation": self.generation,
            "member_id": self.member_id,
            "instance_id": self.instance_id,
        }
        return commit(self.client, {("t", partition): offset}, **{**request, **given})["t", partition]


def commit(
    client: Client,
    offsets: Mapping[tuple[str, int], int],
    group: str = "g",
    *,
    generation: int = -1,
    member_id: str = "",
    instance_id: str | None = None,
    metadata: str | None = "",
    leader_epoch: int = -1,
    version: int = 9,
    **given: Any,
) -> dict[tuple[str, int], int]:
    """Commit; the error code of each partition."""
    response: OffsetCommitResponse = client.ask(
        OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=leader_epoch,
                            committed_metadata=metadata,
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
            **given,
        ),
        version,
    )
    return {(topic.name, one.partition_index): one.error_code for topic in response.topics for one in topic.partitions}


def fetch_committed(
    client: Client, group: str = "g", topics: Mapping[str, list[int]] | None = None, **given: Any
) -> dict[tuple[str, int], int]:
    """The committed offsets of a group, of all or some partitions."""
    asked = OffsetFetchRequestGroup(
        group_id=group,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=name, partition_indexes=numbers) for name, numbers in topics.items()],
    )
    response: OffsetFetchResponse = client.ask(OffsetFetchRequest(groups=[asked], **given), 9)
    (found,) = response.groups
    assert found.error_code == 0, found
    return {
        (topic.name, one.partition_index): one.committed_offset for topic in found.topics for one in topic.partitions
    }


class GroupCase(HandlerCase):
    """A broker with few partitions for groups, a topic ``t`` of two partitions, and groups begun at once."""

    config = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}

    def setUp(self) -> None:
        super().setUp()
        self.find()

    def find(self, group: str = "g") -> Any:
        """Find the coordinator, so that the topic is made."""
        (found,) = self.client.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4).coordinators
        return found

    def member(self, group: str = "g", **given: Any) -> Member:
        return Member(self.server.connect(), group, **given)

    def group_of(self, *members: Member) -> None:
        """Have members join and sync: each is assigned its own member id."""
        for member in members:
            if not member.member_id and member.instance_id is None:
                member.get_id()
        # Newcomers first: the group would not wait for static ones, which need no id before.
        for member in sorted(members, key=lambda one: bool(one.member_id)):
            member.send_join()
        for member in members:
            assert member.joined().error_code == 0, member.told
        self.sync(*members)

    def sync(self, *members: Member) -> None:
        given = {member.member_id: member.member_id.encode() for member in members}
        for member in members:
            member.send_sync(given if member.leads else None)
        for member in members:
            answer = member.answer()
            assert answer is not None
            assert (answer.error_code, answer.assignment) == (0, member.member_id.encode()), answer

    def describe(self, group: str = "g", version: int = 5, **given: Any) -> DescribedGroup:
        (found,) = self.client.ask(DescribeGroupsRequest(groups=[group], **given), version).groups
        described: DescribedGroup = found
        return described

    def listed(self, **given: Any) -> list[ListedGroup]:
        response = self.client.ask(ListGroupsRequest(**given), 5)
        assert response.error_code == 0
        groups: list[ListedGroup] = response.groups
        return groups

    def restart(self) -> None:
        """Stop the broker, and start another one on the same disks."""
        before = self.server
        before.stop()
        self.server = type(before)(self.config, disks=before.disks, ensemble=before.ensemble).start()
        self.addCleanup(self.server.close)
        self.client = self.server.connect()
