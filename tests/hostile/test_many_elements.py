"""Legal requests of very many elements: they are served in slices, and other requests in between."""

from __future__ import annotations

import gc
from typing import Any
from uuid import UUID

from logbus.errors import ErrorCode
from logbus.records.batch import Record, encode_batch
from logbus.records.compression import Codec
from logbus.wire.messages.api_versions import ApiVersionsRequest
from logbus.wire.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from logbus.wire.messages.elections import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from logbus.wire.messages.groups import DeleteGroupsRequest, DescribeGroupsRequest, FindCoordinatorRequest
from logbus.wire.messages.log_dirs import DescribeLogDirsRequest
from logbus.wire.messages.metadata import (
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    TopicRequest,
)
from logbus.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from logbus.wire.messages.partitions import NamedTopicPartitions, TopicPartitionIndexes, TopicPartitions
from logbus.wire.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from logbus.wire.messages.share_fetches import (
    AcknowledgementBatch,
    ShareAcknowledgePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeTopic,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)
from logbus.wire.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from logbus.wire.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
)
from logbus.wire.messages.transaction_admin import DescribeProducersRequest, DescribeTransactionsRequest
from logbus.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
    WritableTxnMarker,
    WriteTxnMarkersRequest,
)
from tests.handlers.group_kit import GroupCase
from tests.handlers.kit import a_batch
from tests.net.fakes import iterate

MANY = 12_000
NAMES = [f"n{number}" for number in range(MANY)]


class ManyElementsTests(GroupCase):
    """One request of each kind; the clock stands still, so that a slice ends after so many units of work."""

    def check(self, message: Any, version: int, least: int = 3, most: int = 200) -> Any:
        """
        Have a request answered: in so many slices, while another client is answered in every turn, and with no garbage
        for the collector.
        """
        other = self.server.connect()
        scheduler = self.server.broker.env.slice_scheduler
        before = scheduler.slices
        gc.collect(0)
        gc.disable()
        self.addCleanup(gc.enable)
        self.client.send(message, version)
        answers: list[Any] = []
        for _ in range(most):
            answers = self.client.answers()
            if answers:
                break
            other.send(ApiVersionsRequest(), 0)
            self.assertEqual(len(other.answers()), 1)
            iterate(self.server.reactor)
        self.assertEqual(len(answers), 1, "it was not answered")
        self.assertGreaterEqual(scheduler.slices - before, least)
        # What refers to itself is not freed before the garbage collector has looked at everything in one go.
        self.assertLess(gc.collect(0), 500)
        gc.enable()
        return answers[0]

    def test_metadata(self) -> None:
        """Topics by name."""
        topics = [MetadataRequestTopic(name=name) for name in NAMES]
        answer = self.check(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 4)
        self.assertEqual([topic.name for topic in answer.topics], NAMES)

    def test_describe_topic_partitions(self) -> None:
        """Topics page by page."""
        topics = [TopicRequest(name=name) for name in NAMES]
        self.check(DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=2000, cursor=None), 0)

    def test_list_offsets(self) -> None:
        """Offsets of partitions."""
        partitions = [
            ListOffsetsPartition(partition_index=number, timestamp=1, current_leader_epoch=-1) for number in range(MANY)
        ]
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name="t", partitions=partitions)]
        )
        answer = self.check(request, 5)
        self.assertEqual(len(answer.topics[0].partitions), MANY)

    def test_offset_for_leader_epoch(self) -> None:
        """Ends of epochs."""
        partitions = [
            OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0) for _ in range(MANY)
        ]
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=partitions)]
        )
        self.check(request, 3)

    def test_fetch(self) -> None:
        """Partitions to read from, of which one has something; it is too many for a session."""
        self.client.produce(a_batch(b"here"))
        partitions = [
            FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1000) for number in range(MANY)
        ]
        request = FetchRequest(
            max_wait_ms=5000, min_bytes=1, max_bytes=10**6, topics=[FetchTopic(topic="t", partitions=partitions)]
        )
        answer = self.check(request, 11)
        told = answer.responses[0].partitions
        self.assertEqual((answer.session_id, len(answer.responses), len(told)), (0, 1, MANY))
        self.assertTrue(told[0].records)
        self.assertEqual({one.error_code for one in told[2:]}, {3})

    def test_waiting_fetch(self) -> None:
        """A fetch of the same partitions again and again waits for records, once, and is then answered."""
        partitions = [
            FetchPartition(partition=number % 2, fetch_offset=0, partition_max_bytes=1000) for number in range(MANY)
        ]
        request = FetchRequest(
            max_wait_ms=5000, min_bytes=1, max_bytes=10**6, topics=[FetchTopic(topic="t", partitions=partitions)]
        )
        self.client.send(request, 11)
        for _ in range(50):
            iterate(self.server.reactor)
        self.assertEqual(self.client.answers(), [])
        self.server.connect().produce(a_batch(b"here"))
        for _ in range(50):
            iterate(self.server.reactor)
        (answer,) = self.client.answers()
        self.assertTrue(answer.responses[0].partitions[0].records)
        self.assertEqual(self.server.watchers, 0)

    def test_produce(self) -> None:
        """Batches, in their order."""
        data = [PartitionProduceData(index=0, records=a_batch(b"v")) for _ in range(MANY)]
        for acks in (1, -1):
            request = ProduceRequest(
                acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(name="t", partition_data=data)]
            )
            (topic,) = self.check(request, 8).responses
            offsets = [one.base_offset for one in topic.partition_responses]
            self.assertEqual(offsets, list(range(offsets[0], offsets[0] + MANY)))

    def test_offset_commit(self) -> None:
        """Offsets of a group, and what it committed."""
        partitions = [
            OffsetCommitRequestPartition(partition_index=number % 3, committed_offset=number, committed_metadata="")
            for number in range(MANY)
        ]
        topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
        answer = self.check(OffsetCommitRequest(group_id="g", topics=topics), 6)
        self.assertEqual([one.error_code for one in answer.topics[0].partitions][:3], [0, 0, 3])

    def test_offset_fetch(self) -> None:
        """What groups committed."""
        groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in NAMES]
        answer = self.check(OffsetFetchRequest(groups=groups, require_stable=False), 8)
        self.assertEqual([group.group_id for group in answer.groups], NAMES)

    def test_partitions_of_an_offset_fetch(self) -> None:
        """Partitions of one topic: of an unknown one, and of one that there is."""
        numbers = list(range(MANY))
        unknown = OffsetFetchRequestTopics(topic_id=UUID(int=7).bytes, partition_indexes=numbers)
        named = OffsetFetchRequestTopics(name="t", partition_indexes=[*numbers, *numbers])
        for topic, version, code in ((unknown, 10, ErrorCode.UNKNOWN_TOPIC_ID), (named, 9, ErrorCode.NONE)):
            groups = [OffsetFetchRequestGroup(group_id="g", topics=[topic])]
            answer = self.check(OffsetFetchRequest(groups=groups, require_stable=False), version, least=9)
            found = answer.groups[0].topics[0].partitions
            self.assertEqual([one.partition_index for one in found], numbers)
            self.assertEqual({one.error_code for one in found}, {code})

    def test_members_of_share_groups(self) -> None:
        """Partitions that are too many for a session, and what became of records of unknown topics."""
        topic_id, member = UUID(int=7).bytes, {"group_id": "g", "member_id": "m"}
        fetched = [ShareFetchPartition(partition_index=number, acknowledgement_batches=[]) for number in range(MANY)]
        request = ShareFetchRequest(
            **member,
            share_session_epoch=0,
            max_wait_ms=0,
            min_bytes=0,
            max_records=1,
            batch_size=1,
            topics=[ShareFetchTopic(topic_id=topic_id, partitions=fetched)],
            forgotten_topics_data=[],
        )
        self.assertEqual(self.check(request, 1, least=7).error_code, ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        request.topics = []
        self.assertEqual(self.client.ask(request, 1).error_code, 0)
        batches = [AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])]
        said = [
            ShareAcknowledgePartition(partition_index=number, acknowledgement_batches=batches) for number in range(MANY)
        ]
        acknowledge = ShareAcknowledgeRequest(
            **member, share_session_epoch=1, topics=[ShareAcknowledgeTopic(topic_id=topic_id, partitions=said)]
        )
        answer = self.check(acknowledge, 1, least=30)
        codes = [one.error_code for one in answer.responses[0].partitions]
        self.assertEqual(codes, [ErrorCode.UNKNOWN_TOPIC_ID] * MANY)

    def test_start_offsets_of_share_groups(self) -> None:
        """Partitions that a group has no offsets in, and that are not there."""
        numbers = list(range(MANY))
        wanted = [DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=numbers)]
        groups = [DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=wanted)]
        answer = self.check(DescribeShareGroupOffsetsRequest(groups=groups), 0, least=9)
        self.assertEqual([one.partition_index for one in answer.groups[0].topics[0].partitions], numbers)
        starts = [AlterShareGroupOffsetsRequestPartition(partition_index=-1 - n, start_offset=0) for n in numbers]
        topics = [AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=starts)]
        answer = self.check(AlterShareGroupOffsetsRequest(group_id="g", topics=topics), 0, least=20)
        self.assertEqual({one.error_code for one in answer.responses[0].partitions}, {3})

    def test_groups(self) -> None:
        """Groups described and deleted, and coordinators."""
        self.check(DescribeGroupsRequest(groups=NAMES), 5)
        self.check(DeleteGroupsRequest(groups_names=NAMES), 2)
        self.check(FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES), 4)

    def test_transactions(self) -> None:
        """Transactions described, and markers of clients."""
        self.check(DescribeTransactionsRequest(transactional_ids=NAMES), 0)
        markers = [
            WritableTxnMarker(
                producer_id=1000 + number,
                producer_epoch=0,
                transaction_result=True,
                topics=[TopicPartitionIndexes(name="t", partition_indexes=[0])],
                coordinator_epoch=0,
            )
            for number in range(MANY // 2)
        ]
        self.check(WriteTxnMarkersRequest(markers=markers), 1)

    def test_partitions_of_one_marker(self) -> None:
        """A marker for many partitions: of a broker, of a client, which may not, and of no producer."""
        topics = [TopicPartitionIndexes(name="none", partition_indexes=list(range(MANY)))]
        for broker, producer_id, errors in ((1, 1000, {3}), (None, 1000, {42}), (1, -1, {49})):
            self.client.protocol.context.broker = broker
            marker = WritableTxnMarker(
                producer_id=producer_id, producer_epoch=0, transaction_result=True, topics=topics, coordinator_epoch=0
            )
            [answer] = self.check(WriteTxnMarkersRequest(markers=[marker]), 1, most=400).markers
            self.assertEqual([one.partition_index for one in answer.topics[0].partitions], list(range(MANY)))
            self.assertEqual({one.error_code for one in answer.topics[0].partitions}, errors)

    def test_describe_producers(self) -> None:
        """Producers of partitions that are not there."""
        topics = [TopicPartitionIndexes(name="none", partition_indexes=list(range(MANY)))]
        [answer] = self.check(DescribeProducersRequest(topics=topics), 0, most=400).topics
        self.assertEqual([one.partition_index for one in answer.partitions], list(range(MANY)))
        self.assertEqual({one.error_code for one in answer.partitions}, {3})

    def test_partitions_of_transactions(self) -> None:
        """Partitions that are to be in one transaction, and one partition in many transactions."""
        numbers = list(range(MANY))
        topics = [NamedTopicPartitions(name="none", partitions=numbers)]
        request = AddPartitionsToTxnRequest(v3_and_below_transactional_id="x", v3_and_below_topics=topics)
        (told,) = self.check(request, 3, least=12).results_by_topic_v3_and_below
        self.assertEqual([one.partition_index for one in told.results_by_partition], numbers)
        self.assertEqual({one.partition_error_code for one in told.results_by_partition}, {3})
        transactions = [
            AddPartitionsToTxnTransaction(
                transactional_id=name,
                producer_id=1,
                producer_epoch=0,
                topics=[NamedTopicPartitions(name="t", partitions=[0])],
            )
            for name in NAMES[: MANY // 4]
        ]
        answer = self.check(AddPartitionsToTxnRequest(transactions=transactions), 4, least=8)
        told = [one.transactional_id for one in answer.results_by_transaction]
        self.assertEqual(told, NAMES[: MANY // 4])

    def test_topics(self) -> None:
        """Topics made (or not) and deleted, and records."""
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
            for name in NAMES
        ]
        self.check(CreateTopicsRequest(topics=topics, timeout_ms=5000, validate_only=True), 5)
        self.check(DeleteTopicsRequest(topic_names=NAMES, timeout_ms=5000), 3)
        partitions = [DeleteRecordsPartition(partition_index=0, offset=0) for _ in range(MANY)]
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=partitions)], timeout_ms=1000)
        self.check(request, 1)

    def test_elections_and_moves(self) -> None:
        """Leaders elected, replicas moved, and moves listed."""
        numbers = list(range(MANY))
        named = [TopicPartitions(topic="t", partitions=numbers), TopicPartitions(topic="t", partitions=[0])]
        answer = self.check(ElectLeadersRequest(election_type=0, topic_partitions=named, timeout_ms=1000), 2, least=12)
        (elected,) = answer.replica_election_results
        self.assertEqual([one.partition_id for one in elected.partition_result], numbers)
        self.assertEqual([one.error_code for one in elected.partition_result][:3], [84, 84, 3])
        moved = [ReassignablePartition(partition_index=number, replicas=[0]) for number in (*numbers, 0, 0)]
        topics = [ReassignableTopic(name="t", partitions=moved)]
        answer = self.check(AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=topics), 0, least=15)
        (told,) = answer.responses
        codes = {one.partition_index: one.error_code for one in told.partitions}
        self.assertEqual(len(told.partitions), MANY)
        self.assertEqual([codes[number] for number in range(3)], [42, 0, 3])
        listed = [TopicPartitionIndexes(name="t", partition_indexes=numbers)]
        answer = self.check(ListPartitionReassignmentsRequest(timeout_ms=1000, topics=listed), 0, least=2)
        self.assertEqual((answer.error_code, answer.topics), (0, []))

    def test_configs_of_missing_resources(self) -> None:
        """Each has an error of its own."""
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        resources = [AlterConfigsResource(resource_type=2, resource_name=name, configs=[]) for name in NAMES]
        answer = self.check(AlterConfigsRequest(resources=resources), 1)
        self.assertEqual({one.error_code for one in answer.responses}, {unknown})
        for kind, key, code in (
            (2, "retention.ms", unknown),
            (4, "log.retention.ms", ErrorCode.INVALID_REQUEST),
            (32, "retention.ms", ErrorCode.INVALID_CONFIG),
        ):
            change = IncrementalAlterableConfig(name=key, config_operation=0, value="1000")
            altered = [
                IncrementalAlterConfigsResource(resource_type=kind, resource_name=f"1{number}", configs=[change])
                for number in range(MANY)
            ]
            answer = self.check(IncrementalAlterConfigsRequest(resources=altered), 1)
            self.assertEqual({one.error_code for one in answer.responses}, {code})

    def test_many_new_topics(self) -> None:
        """They are noted in the log some at a time, and so are those that are given more partitions."""
        names = NAMES[:1000]
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
            for name in names
        ]
        answer = self.check(CreateTopicsRequest(topics=topics, timeout_ms=0), 5, least=13, most=3000)
        self.assertEqual({topic.error_code for topic in answer.topics} - {0, 7}, set())
        grown = [CreatePartitionsTopic(name=name, count=2, assignments=None) for name in names]
        answer = self.check(CreatePartitionsRequest(topics=grown, timeout_ms=0), 3, least=8, most=3000)
        self.assertEqual({topic.error_code for topic in answer.results} - {0, 7}, set())

    def test_settings_and_directories(self) -> None:
        """Settings of topics, and log directories."""
        resources = [
            DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None) for name in NAMES
        ]
        self.check(DescribeConfigsRequest(resources=resources, include_synonyms=True), 1)
        wanted = [TopicPartitions(topic=name, partitions=[0]) for name in NAMES[: MANY // 2]]
        self.check(DescribeLogDirsRequest(topics=wanted), 1, least=2)
        self.check(DescribeLogDirsRequest(topics=[TopicPartitions(topic="t", partitions=list(range(MANY)))]), 1)

    def test_a_time_in_a_large_batch(self) -> None:
        """A batch of many records is searched in slices, and no further than to the record in question."""
        records = [Record(0, 1000 + number, b"", b"") for number in range(60_000)]
        self.client.produce(encode_batch(records, codec=Codec.ZSTD))

        def asked(timestamp: int) -> ListOffsetsRequest:
            partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=-1)
            return ListOffsetsRequest(
                replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name="t", partitions=[partition])]
            )

        (found,) = self.check(asked(1000 + 59_000), 5).topics[0].partitions
        self.assertEqual((found.error_code, found.offset, found.timestamp), (0, 59_000, 60_000))
        before = self.server.broker.env.slice_scheduler.slices
        (found,) = self.client.ask(asked(1010), 5).topics[0].partitions
        self.assertEqual(found.offset, 10)
        self.assertEqual(self.server.broker.env.slice_scheduler.slices, before)

    def test_disconnected_client(self) -> None:
        """The request of a client that disconnects is not completed."""
        partitions = [
            OffsetCommitRequestPartition(partition_index=number % 2, committed_offset=number, committed_metadata="")
            for number in range(MANY)
        ]
        topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
        self.client.send(OffsetCommitRequest(group_id="g", topics=topics), 6)
        iterate(self.server.reactor)
        self.client.transport.loseConnection()
        before = self.server.broker.env.slice_scheduler.slices
        for _ in range(20):
            iterate(self.server.reactor)
        self.assertEqual(self.server.broker.env.slice_scheduler.slices, before)
