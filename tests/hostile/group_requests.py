"""Groups with members, and valid requests of every group API, as input for fuzzing."""

from __future__ import annotations

from typing import Any

from logbus.wire.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from logbus.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from logbus.wire.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from logbus.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from logbus.wire.messages.partitions import TopicIdPartitions, TopicPartitionIndexes
from logbus.wire.messages.share_fetches import (
    AcknowledgementBatch,
    ShareAcknowledgePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeTopic,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
    ShareForgottenTopic,
)
from logbus.wire.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
)
from logbus.wire.messages.streams_groups import (
    CopartitionGroupIds,
    KeyValue,
    StreamsEndpoint,
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    SubtopologyInfo,
    TaskIds,
    TaskOffset,
    TopicInfo,
    TopologyInfo,
)
from logbus.wire.schema import encode_versioned
from tests.handlers.kit import MemoryBroker

SUBSCRIPTION = encode_versioned(ConsumerProtocolSubscription(topics=["t"]), 1)

#: Groups: classic, of the consumer protocol, of both, one without members, a share group, and a
#: streams group.
GROUPS = ("classic", "consumer", "mixed", "new", "share", "streams")
#: Ids of members. The broker gives ids of its own to some: its chance is the same in each test.
MEMBERS = ("m1", "m2", "")
INSTANCES = ("i1", "i2", None)


def joining(group: str, member: str = "", instance: str | None = None, names: tuple[str, ...] = ("range",)) -> Any:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=5_000,
        member_id=member,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=name, metadata=SUBSCRIPTION) for name in names],
    )


def beat(group: str, member: str, epoch: int = 0, **given: Any) -> Any:
    request: dict[str, Any] = {"group_id": group, "member_id": member, "member_epoch": epoch}
    if epoch == 0:
        request |= {"rebalance_timeout_ms": 5_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    return ConsumerGroupHeartbeatRequest(**{**request, **given})


def share_beat(member: str, epoch: int = 0, group: str = "share", **given: Any) -> Any:
    topics = ["t"] if epoch == 0 else None
    request: dict[str, Any] = {"group_id": group, "member_id": member, "member_epoch": epoch}
    return ShareGroupHeartbeatRequest(**{**request, "subscribed_topic_names": topics, **given})


def share_group_requests() -> list[Any]:
    """Requests of share groups, at least one of each API."""
    requests: list[Any] = [
        share_beat("m1", 2),
        share_beat("m1", 1, rack_id="r"),
        share_beat("m2"),
        share_beat("m2", group="consumer"),
        share_beat("m1", 2, subscribed_topic_names=["t", "new"]),
        share_beat("m1", -1),
        ShareGroupDescribeRequest(group_ids=list(GROUPS), include_authorized_operations=True),
    ]
    for group in ("share", "new"):
        requests += [
            DescribeShareGroupOffsetsRequest(
                groups=[
                    DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)
                    for topics in (
                        None,
                        [DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0, 1, 7])],
                    )
                ]
            ),
            AlterShareGroupOffsetsRequest(
                group_id=group,
                topics=[
                    AlterShareGroupOffsetsRequestTopic(
                        topic_name="t",
                        partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=1)],
                    )
                ],
            ),
            DeleteShareGroupOffsetsRequest(
                group_id=group, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
            ),
        ]
    return requests


def share_fetch_requests(topic_id: bytes) -> list[Any]:
    """Requests of a member of a share group to a leader: its session begins, it reads, acknowledges, and ends."""
    said = [AcknowledgementBatch(first_offset=0, last_offset=2, acknowledge_types=[1, 2, 3])]

    def fetch(epoch: int, acknowledged: bool, **given: Any) -> ShareFetchRequest:
        partitions = [
            ShareFetchPartition(partition_index=n, acknowledgement_batches=said if acknowledged else [])
            for n in range(2)
        ]
        terms: dict[str, Any] = {"min_bytes": 1, "max_records": 500, "forgotten_topics_data": []}
        return ShareFetchRequest(
            group_id="share",
            member_id="m1",
            share_session_epoch=epoch,
            max_wait_ms=0,
            batch_size=100,
            topics=[ShareFetchTopic(topic_id=topic_id, partitions=partitions)],
            **(terms | given),
        )

    return [
        fetch(0, False),
        fetch(1, True, forgotten_topics_data=[ShareForgottenTopic(topic_id=topic_id, partitions=[1])]),
        fetch(2, False, is_renew_ack=True, min_bytes=0, max_bytes=0, max_records=0),
        ShareAcknowledgeRequest(
            group_id="share",
            member_id="m1",
            share_session_epoch=3,
            topics=[
                ShareAcknowledgeTopic(
                    topic_id=topic_id,
                    partitions=[ShareAcknowledgePartition(partition_index=0, acknowledgement_batches=said)],
                )
            ],
        ),
        fetch(-1, True),
    ]


def streams_beat(member: str, epoch: int = 0, group: str = "streams", **given: Any) -> Any:
    request: dict[str, Any] = {"group_id": group, "member_id": member, "member_epoch": epoch}
    if epoch == 0:
        repartition = TopicInfo(
            name="words", partitions=2, replication_factor=1, topic_configs=[KeyValue(key="segment.ms", value="60000")]
        )
        counting = SubtopologyInfo(
            subtopology_id="1",
            source_topics=["t"],
            source_topic_regex=[],
            state_changelog_topics=[TopicInfo(name="counts", partitions=0, replication_factor=0, topic_configs=[])],
            repartition_sink_topics=["words"],
            repartition_source_topics=[repartition],
            copartition_groups=[
                CopartitionGroupIds(source_topics=[0], source_topic_regex=[], repartition_source_topics=[0])
            ],
        )
        request |= {
            "rebalance_timeout_ms": 5_000,
            "topology": TopologyInfo(epoch=0, subtopologies=[counting]),
            "process_id": "p",
            "user_endpoint": StreamsEndpoint(host="h", port=9),
            "client_tags": [KeyValue(key="zone", value="a")],
        }
    return StreamsGroupHeartbeatRequest(**{**request, **given})


def streams_group_requests() -> list[Any]:
    """Requests of streams groups, at least one of each API."""
    owned = [TaskIds(subtopology_id="1", partitions=[0, 1])]
    offsets = [TaskOffset(subtopology_id="1", partition=0, offset=7)]
    tasks = {"active_tasks": owned, "standby_tasks": owned, "warmup_tasks": []}
    return [
        streams_beat("m1", 2, **tasks),
        streams_beat("m1", 1, rack_id="r", **tasks),
        streams_beat("m2"),
        streams_beat("m2", group="consumer"),
        streams_beat("m2", group="classic", instance_id="i1"),
        streams_beat("m1", 2, task_offsets=offsets, task_end_offsets=offsets, shutdown_application=True),
        streams_beat("m1", -1),
        StreamsGroupDescribeRequest(group_ids=list(GROUPS), include_authorized_operations=True),
    ]


def with_groups(server: MemoryBroker) -> list[str]:
    """Let the broker have groups of both protocols, stable and not; the ids of members it made up."""
    client = server.connect()
    client.ask(FindCoordinatorRequest(coordinator_keys=["classic"]), 4)
    made = []
    for group in ("classic", "mixed"):
        # Static members need not come twice.
        told = client.ask(joining(group, instance="i1", names=("range", "sticky")), 9)
        assigned = [SyncGroupRequestAssignment(member_id=told.member_id, assignment=b"")]
        client.ask(
            SyncGroupRequest(
                group_id=group,
                generation_id=told.generation_id,
                member_id=told.member_id,
                group_instance_id="i1",
                protocol_type="consumer",
                protocol_name="range",
                assignments=assigned,
            ),
            5,
        )
        made.append(told.member_id)
    made.append(client.ask(joining("classic"), 9).member_id)
    for group in ("consumer", "mixed"):
        for member in ("m1", "m2"):
            client.ask(beat(group, member, subscribed_topic_regex="t.*"), 1)
    client.ask(share_beat("m1"), 1)
    client.ask(streams_beat("m1"), 0)
    client.transport.loseConnection()
    return made


def group_requests(server: MemoryBroker, made: list[str]) -> list[Any]:
    """Requests that the broker of :func:`with_groups` serves, at least one of each API."""
    classic, mixed, pending = made
    owned = [TopicIdPartitions(topic_id=server.topic_id(), partitions=[0, 1])]
    commits = [
        OffsetCommitRequestTopic(
            name="t",
            partitions=[OffsetCommitRequestPartition(partition_index=n, committed_offset=7, committed_metadata="said")],
        )
        for n in range(2)
    ]
    requests: list[Any] = [
        FindCoordinatorRequest(key="classic"),
        FindCoordinatorRequest(coordinator_keys=["classic", "new"]),
        ListGroupsRequest(),
        ListGroupsRequest(states_filter=["Stable"], types_filter=["classic", "consumer"]),
        DescribeGroupsRequest(groups=list(GROUPS), include_authorized_operations=True),
        ConsumerGroupDescribeRequest(group_ids=list(GROUPS), include_authorized_operations=True),
        DescribeGroupsRequest(groups=list(GROUPS)),
        DeleteGroupsRequest(groups_names=list(GROUPS)),
        joining("classic", pending),
        joining("new"),
        beat("classic", "m1"),
        OffsetFetchRequest(
            group_id="consumer",
            topics=[TopicPartitionIndexes(name="t", partition_indexes=[0, 1])],
        ),
        OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id="consumer",
                    member_id="m1",
                    member_epoch=2,
                    topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])],
                )
            ],
        ),
        OffsetFetchRequest(group_id="classic", topics=None),
    ]
    for group, member in (("classic", classic), ("mixed", mixed)):
        requests += [
            joining(group, member, "i1", ("range", "sticky")),
            joining(group, "", "i1"),
            *(
                SyncGroupRequest(
                    group_id=group,
                    generation_id=generation,
                    member_id=member,
                    group_instance_id="i1",
                    protocol_type="consumer",
                    protocol_name="range",
                    assignments=[SyncGroupRequestAssignment(member_id=member, assignment=SUBSCRIPTION)],
                )
                for generation in (1, 2)
            ),
            HeartbeatRequest(group_id=group, generation_id=1, member_id=member, group_instance_id="i1"),
            LeaveGroupRequest(group_id=group, member_id=member),
            LeaveGroupRequest(
                group_id=group,
                members=[MemberIdentity(member_id=member, group_instance_id="i1"), MemberIdentity(member_id="m1")],
            ),
            OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=1,
                member_id=member,
                group_instance_id="i1",
                topics=commits,
            ),
        ]
    for group in ("consumer", "mixed"):
        requests += [
            beat(group, "m1", 2, topic_partitions=owned),
            beat(group, "m1", 1, topic_partitions=[]),
            beat(group, "m1", 1, rebalance_timeout_ms=0, subscribed_topic_names=["t", "new"], server_assignor="range"),
            beat(group, "m2", 3, subscribed_topic_regex="(t|new).*"),
            beat(group, "m3", instance_id="i2", rack_id="r"),
            beat(group, "m3", -2, instance_id="i2"),
            beat(group, "m2", -1),
            OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=2, member_id="m1", topics=commits),
        ]
    for group in ("new", "classic"):
        requests += [
            OffsetCommitRequest(group_id=group, retention_time_ms=1000, topics=commits),
            OffsetDeleteRequest(
                group_id=group,
                topics=[
                    OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
                ],
            ),
        ]
    return requests + share_group_requests() + share_fetch_requests(server.topic_id()) + streams_group_requests()
