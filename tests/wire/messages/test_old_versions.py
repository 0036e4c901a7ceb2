"""Versions that Kafka has dropped and logbus keeps for old clients, byte by byte."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from logbus.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from logbus.wire.messages.partitions import PartitionErrorCode, TopicPartitionIndexes
from logbus.wire.messages.records import (
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from logbus.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from logbus.wire.schema import decode, encode
from tests.wire.golden import octets


class OldVersionTests(SynchronousTestCase):
    """Each message as its bytes, both ways."""

    def check(self, message: Any, version: int, text: str) -> None:
        """``message`` is encoded as ``text``, and decoded from it."""
        data = octets(text)
        self.assertEqual(encode(message, version), [data])
        self.assertEqual(decode(type(message), version, data), (message, len(data)))

    def test_list_offsets_0(self) -> None:
        """Version 0 asks for several offsets and gets a list, of the starts of segments."""
        self.check(
            ListOffsetsRequest(
                topics=[
                    ListOffsetsTopic(
                        name="t", partitions=[ListOffsetsPartition(partition_index=2, timestamp=-1, max_num_offsets=5)]
                    )
                ]
            ),
            0,
            """
            ff ff ff ff                  # replica id
            00 00 00 01  00 01 74        # topics: "t"
            00 00 00 01                  # partitions
            00 00 00 02                  #   index
            ff ff ff ff ff ff ff ff      #   timestamp
            00 00 00 05                  #   offsets wanted
            """,
        )
        self.check(
            ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(
                        name="t",
                        partitions=[ListOffsetsPartitionResponse(partition_index=2, old_style_offsets=[9, 0])],
                    )
                ]
            ),
            0,
            """
            00 00 00 01  00 01 74
            00 00 00 01  00 00 00 02  00 00
            00 00 00 02  00 00 00 00 00 00 00 09  00 00 00 00 00 00 00 00
            """,
        )

    def test_create_topics(self) -> None:
        """Version 0 cannot only validate; its answers have no words; neither is throttled."""
        topic = CreatableTopic(
            name="t",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])],
            configs=[CreatableTopicConfig(name="c", value="v"), CreatableTopicConfig(name="d", value=None)],
        )
        spelt = """
            00 00 00 01  00 01 74  ff ff ff ff  ff ff
            00 00 00 01  00 00 00 00  00 00 00 02 00 00 00 01 00 00 00 02
            00 00 00 02  00 01 63 00 01 76  00 01 64 ff ff
            00 00 ea 60                  # timeout
            """
        self.check(CreateTopicsRequest(topics=[topic]), 0, spelt)
        self.check(CreateTopicsRequest(topics=[topic], validate_only=True), 1, spelt + "01")
        with self.assertRaisesRegex(ValueError, "validate_only"):
            encode(CreateTopicsRequest(topics=[topic], validate_only=True), 0)
        result = CreatableTopicResult(name="t", error_code=36)
        self.check(CreateTopicsResponse(topics=[result]), 0, "00 00 00 01  00 01 74  00 24")
        result = CreatableTopicResult(name="t", error_code=36, error_message="!")
        self.check(CreateTopicsResponse(topics=[result]), 1, "00 00 00 01  00 01 74  00 24  00 01 21")

    def test_delete_topics_0(self) -> None:
        """Version 0 is not throttled."""
        self.check(
            DeleteTopicsRequest(topic_names=["a", "b"], timeout_ms=5),
            0,
            "00 00 00 02  00 01 61  00 01 62  00 00 00 05",
        )
        response = DeleteTopicsResponse(responses=[DeletableTopicResult(name="a", error_code=3)])
        self.check(response, 0, "00 00 00 01  00 01 61  00 03")

    def test_describe_configs_0(self) -> None:
        """Version 0 says whether a value is the default, where later ones say where it comes from."""
        self.check(
            DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(resource_type=2, resource_name="t"),
                    DescribeConfigsResource(resource_type=4, resource_name="", configuration_keys=["k"]),
                ]
            ),
            0,
            """
            00 00 00 02
            02  00 01 74  ff ff ff ff
            04  00 00  00 00 00 01 00 01 6b
            """,
        )
        result = DescribeConfigsResourceResult(name="k", value="v", read_only=True, is_default=True, is_sensitive=False)
        self.check(
            DescribeConfigsResponse(
                results=[DescribeConfigsResult(resource_type=2, resource_name="t", configs=[result])]
            ),
            0,
            """
            00 00 00 00                  # throttle time
            00 00 00 01  00 00  ff ff    # no error, no words
            02  00 01 74
            00 00 00 01  00 01 6b  00 01 76  01  01  00
            """,
        )

    def test_offset_for_leader_epoch(self) -> None:
        """Version 0 does not return the epoch found; neither has the current epoch of the client."""
        request = OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=1, leader_epoch=7)])]
        )
        spelt = "00 00 00 01  00 01 74  00 00 00 01  00 00 00 01  00 00 00 07"
        self.check(request, 0, spelt)
        self.check(request, 1, spelt)
        found = EpochEndOffset(partition=1, end_offset=9)
        response = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[found])])
        self.check(response, 0, "00 00 00 01  00 01 74  00 00 00 01  00 00  00 00 00 01  00 00 00 00 00 00 00 09")
        found.leader_epoch = 6
        self.check(
            response, 1, "00 00 00 01  00 01 74  00 00 00 01  00 00  00 00 00 01  00 00 00 06  00 00 00 00 00 00 00 09"
        )

    def test_offset_commit(self) -> None:
        """Version 0 knows no generations; version 1 alone has a time for each offset."""
        partition = OffsetCommitRequestPartition(partition_index=1, committed_offset=9, committed_metadata=None)
        topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
        self.check(
            OffsetCommitRequest(group_id="g", topics=[topic]),
            0,
            "00 01 67  00 00 00 01  00 01 74  00 00 00 01  00 00 00 01  00 00 00 00 00 00 00 09  ff ff",
        )
        partition.commit_timestamp = 5
        self.check(
            OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=3, member_id="m", topics=[topic]),
            1,
            """
            00 01 67  00 00 00 03  00 01 6d      # group, generation, member
            00 00 00 01  00 01 74
            00 00 00 01  00 00 00 01
            00 00 00 00 00 00 00 09              # offset
            00 00 00 00 00 00 00 05              # time
            ff ff                                # metadata
            """,
        )
        answered = OffsetCommitResponseTopic(name="t", partitions=[PartitionErrorCode(partition_index=1)])
        for version in (0, 1):
            self.check(
                OffsetCommitResponse(topics=[answered]),
                version,
                "00 00 00 01  00 01 74  00 00 00 01  00 00 00 01  00 00",
            )

    def test_offset_fetch_0(self) -> None:
        """Version 0, of offsets kept in ZooKeeper, is encoded like version 1; it cannot request all topics."""
        request = OffsetFetchRequest(group_id="g", topics=[TopicPartitionIndexes(name="t", partition_indexes=[1])])
        self.check(request, 0, "00 01 67  00 00 00 01  00 01 74  00 00 00 01  00 00 00 01")
        request.topics = None
        self.assertRaises(ValueError, encode, request, 0)
        partition = OffsetFetchResponsePartition(partition_index=1, committed_offset=-1)
        self.check(
            OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=[partition])]),
            0,
            "00 00 00 01  00 01 74  00 00 00 01  00 00 00 01  ff ff ff ff ff ff ff ff  00 00  00 00",
        )
