"""Messages that clients are known to get wrong, byte by byte."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import DecodeError
from logbus.wire.declaration import SchemaError
from logbus.wire.messages import api
from logbus.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from logbus.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from logbus.wire.messages.groups import FindCoordinatorRequest, JoinGroupResponse
from logbus.wire.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
)
from logbus.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from logbus.wire.messages.partitions import TopicPartitionIndexes, TopicPartitions
from logbus.wire.messages.records import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from logbus.wire.schema import decode, decode_versioned, decoder, encode
from tests.wire.golden import octets


class ApiVersionsTests(SynchronousTestCase):
    """The first message of every connection."""

    def test_version_0_answers_anyone(self) -> None:
        """The answer to an unknown version is plain: error 35 and our range, no throttle time, no tags."""
        response = ApiVersionsResponse(
            error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)], throttle_time_ms=5
        )
        self.assertEqual(encode(response, 0), [octets("00 23  00 00 00 01  00 12 00 00 00 04")])

    def test_features(self) -> None:
        """Features are tags 0 to 3; none of them is sent when there is none."""
        plain = ApiVersionsResponse(api_keys=[])
        self.assertEqual(encode(plain, 3), [octets("00 00  01  00 00 00 00  00")])
        plain.finalized_features_epoch = 4
        plain.finalized_features = [FinalizedFeatureKey(name="f", max_version_level=2, min_version_level=1)]
        self.assertEqual(
            encode(plain, 3),
            [
                octets(
                    """
                    00 00  01  00 00 00 00
                    02                                # two tags
                    01 08 00 00 00 00 00 00 00 04     # the epoch
                    02 08 02 02 66 00 02 00 01 00     # one feature: "f", levels, no tags
                    """
                )
            ],
        )

    def test_request_of_librdkafka(self) -> None:
        """What librdkafka sends first."""
        data = octets("0b 6c 69 62 72 64 6b 61 66 6b 61  07 32 2e 31 36 2e 31  00")
        request, end = decode(ApiVersionsRequest, 3, data)
        self.assertEqual(
            (request.client_software_name, request.client_software_version, end), ("librdkafka", "2.16.1", len(data))
        )


class MetadataTests(SynchronousTestCase):
    """Null and empty mean different things in different versions."""

    def test_topics_of_version_0(self) -> None:
        """Version 0 has no null: an empty list asks for all topics."""
        self.assertEqual(decode(MetadataRequest, 0, octets("00 00 00 00"))[0].topics, [])
        self.assertRaises(DecodeError, decode, MetadataRequest, 0, octets("ff ff ff ff"))

    def test_null_from_version_1(self) -> None:
        """From version 1 null asks for all topics, empty for none."""
        for version, null, empty in ((1, "ff ff ff ff", "00 00 00 00"), (9, "00 01 00 00 00", "01 01 00 00 00")):
            self.assertIsNone(decode(MetadataRequest, version, octets(null))[0].topics)
            self.assertEqual(decode(MetadataRequest, version, octets(empty))[0].topics, [])

    def test_names_may_be_null_from_version_10(self) -> None:
        """A topic asked for by id has no name; before ids there was none without one."""
        by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"\1" * 16, name=None)])
        for version in (10, 12, 13):
            (data,) = encode(by_id, version)
            self.assertEqual(decode(MetadataRequest, version, bytes(data))[0], by_id)  # type: ignore[arg-type]
        self.assertRaises(ValueError, encode, by_id, 9)
        self.assertRaises(DecodeError, decode, MetadataRequest, 9, octets("02 00 00 01 00 00 00"))

    def test_auto_creation_defaults_to_allowed(self) -> None:
        """Before version 4 every client may create topics by asking for them."""
        self.assertTrue(decode(MetadataRequest, 3, octets("ff ff ff ff"))[0].allow_auto_topic_creation)
        self.assertFalse(decode(MetadataRequest, 4, octets("ff ff ff ff 00"))[0].allow_auto_topic_creation)

    def test_one_message_for_all_versions(self) -> None:
        """A full response can be encoded in every version; fields that a version lacks are dropped."""
        response = MetadataResponse(
            throttle_time_ms=1,
            brokers=[MetadataResponseBroker(node_id=1, host="h", port=9092, rack="r")],
            cluster_id="c",
            controller_id=1,
            topics=[],
            cluster_authorized_operations=7,
            error_code=3,
        )
        for version in range(14):
            encode(response, version)


class ProduceTests(SynchronousTestCase):
    """Batches in."""

    def test_versions_0_to_2_are_not_decoded(self) -> None:
        """They carried message sets of another format (magic 0 and 1)."""
        for version in (0, 1, 2):
            self.assertRaises(SchemaError, decoder, ProduceRequest, version)
        self.assertEqual(str(api(0).versions), "3-13")

    def test_compact_records(self) -> None:
        """From version 9 records have a compact length: one more, as a varint; 0 is null."""
        for length, size in (("81 01", 128), ("01", 0)):
            data = octets(f"00 ff ff 00 00 00 05  02 02 74  02 00 00 00 03 {length}") + bytes(size) + octets("00 00 00")
            request, end = decode(ProduceRequest, 9, data)
            self.assertEqual(request.topic_data[0].partition_data[0].records, bytes(size))
            self.assertEqual((request.acks, request.timeout_ms, end), (-1, 5, len(data)))
        request, _ = decode(ProduceRequest, 9, octets("00 ff ff 00 00 00 05  02 02 74  02 00 00 00 03 00  00 00 00"))
        self.assertIsNone(request.topic_data[0].partition_data[0].records)

    def test_current_leader(self) -> None:
        """From version 10 an error can tell the new leader and where it is, in tags (KIP-951)."""
        partition = PartitionProduceResponse(
            index=0, error_code=6, current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=9)
        )
        response = ProduceResponse(
            responses=[TopicProduceResponse(name="t", partition_responses=[partition])],
            node_endpoints=[NodeEndpoint(node_id=2, host="h", port=9092)],
        )
        head = (
            "02 02 74  02 00 00 00 00  00 06  ff ff ff ff ff ff ff ff  ff ff ff ff ff ff ff ff  ff ff ff ff ff ff ff ff"
        )
        self.assertEqual(encode(response, 9), [octets(f"{head}  01 00  00  00  00 00 00 00  00")])
        self.assertEqual(
            encode(response, 10),
            [
                octets(
                    f"""
                    {head}  01 00
                    01  00 09 00 00 00 02 00 00 00 09 00     # one tag: the leader, with no tags of its own
                    00                                       # of the topic
                    00 00 00 00                              # throttle time
                    01  00 0d 02 00 00 00 02 02 68 00 00 23 84 00 00
                    """
                )
            ],
        )


class FetchTests(SynchronousTestCase):
    """Batches out."""

    def test_null_and_empty(self) -> None:
        """Aborted transactions may be null (not requested); empty records are not null records."""
        for records, aborted, spelt in ((b"", None, "00  ff ff ff ff  01"), (None, [], "01  ff ff ff ff  00")):
            partition = PartitionData(
                partition_index=0, high_watermark=0, records=records, aborted_transactions=aborted
            )
            (data,) = encode(FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])]), 13)
            self.assertIn(octets(spelt), bytes(data))  # type: ignore[arg-type]

    def test_aborted(self) -> None:
        """Aborted transactions stand between the offsets and the records."""
        partition = PartitionData(
            partition_index=1,
            high_watermark=9,
            last_stable_offset=8,
            records=b"r",
            aborted_transactions=[AbortedTransaction(producer_id=5, first_offset=3)],
        )
        response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
        self.assertEqual(
            encode(response, 4),
            [
                octets(
                    """
                    00 00 00 00  00 00 00 01  00 01 74  00 00 00 01
                    00 00 00 01  00 00  00 00 00 00 00 00 00 09  00 00 00 00 00 00 00 08
                    00 00 00 01  00 00 00 00 00 00 00 05  00 00 00 00 00 00 00 03
                    00 00 00 01  72
                    """
                )
            ],
        )


class CursorTests(SynchronousTestCase):
    """A nullable struct in the middle of nowhere (KIP-893)."""

    def test_next_cursor(self) -> None:
        """One byte says whether there is another page."""
        last = DescribeTopicPartitionsResponse(topics=[])
        self.assertEqual(encode(last, 0), [octets("00 00 00 00  01  ff  00")])
        last.next_cursor = Cursor(topic_name="t", partition_index=3)
        self.assertEqual(encode(last, 0), [octets("00 00 00 00  01  01 02 74 00 00 00 03 00  00")])


class GroupTests(SynchronousTestCase):
    """Where the group messages change their shape."""

    def test_coordinators_in_batches(self) -> None:
        """From version 4 one request finds several coordinators; what the other shape says is refused."""
        self.assertEqual(encode(FindCoordinatorRequest(key="g"), 3), [octets("02 67  00  00")])
        self.assertEqual(encode(FindCoordinatorRequest(coordinator_keys=["g"]), 4), [octets("00  02 02 67  00")])
        self.assertRaises(ValueError, encode, FindCoordinatorRequest(key="g"), 4)
        self.assertRaises(ValueError, encode, FindCoordinatorRequest(coordinator_keys=["g"]), 3)

    def test_offsets_of_all_topics(self) -> None:
        """Null topics ask for all from version 2, and per group from version 8."""
        self.assertRaises(DecodeError, decode, OffsetFetchRequest, 1, octets("00 01 67  ff ff ff ff"))
        self.assertIsNone(decode(OffsetFetchRequest, 2, octets("00 01 67  ff ff ff ff"))[0].topics)
        (data,) = encode(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")]), 8)
        self.assertEqual(data, octets("02 02 67 00 00  00  00"))
        one = OffsetFetchRequest(group_id="g", topics=[TopicPartitionIndexes(name="t", partition_indexes=[])])
        self.assertRaises(ValueError, encode, one, 8)

    def test_protocol_of_no_group(self) -> None:
        """The name of the protocol may be null from version 7; before, nothing chosen is an empty string."""
        failed = JoinGroupResponse(error_code=25)
        for version in range(10):
            encode(failed, version)
        failed.protocol_name = None
        self.assertRaises(ValueError, encode, failed, 6)
        encode(failed, 7)

    def test_subscription_of_aiokafka(self) -> None:
        """A subscription as clients write it: version 0, topics, and user data that may be empty."""
        found, version = decode_versioned(
            ConsumerProtocolSubscription, octets("00 00 00 00 00 01 00 01 74 00 00 00 00")
        )
        self.assertEqual((found, version), (ConsumerProtocolSubscription(topics=["t"], user_data=b""), 0))

    def test_subscription_with_owned_partitions(self) -> None:
        """Version 1 tells what the member owns already."""
        data = octets(
            "00 01  00 00 00 01 00 01 74  ff ff ff ff  00 00 00 01 00 01 74 00 00 00 02 00 00 00 00 00 00 00 05"
        )
        found, _ = decode_versioned(ConsumerProtocolSubscription, data)
        self.assertEqual(found.owned_partitions, [TopicPartitions(topic="t", partitions=[0, 5])])
