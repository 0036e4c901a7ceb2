"""
Tests what a starting broker answers before it has the cluster's metadata, as it is for a moment when another broker is
the controller: nobody is told that there is no such topic, since there may be one.
"""

from __future__ import annotations

from typing import Any

from logbus.errors import ErrorCode
from logbus.wire.messages.offsets import OffsetCommitRequest
from logbus.wire.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from logbus.wire.messages.share_fetches import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from tests.handlers.kit import HandlerCase, a_batch, produce_request

NOBODYS = b"\1" * 16


class UnknownMetadataTests(HandlerCase):
    """A broker that has not heard of any broker yet, nor of a topic ``u``."""

    def setUp(self) -> None:
        super().setUp()
        self.metadata = self.server.broker.member.metadata
        self.brokers = dict(self.metadata.brokers)
        self.metadata.brokers.clear()

    def told(self) -> None:
        """The controller has told all there is."""
        self.metadata.brokers.update(self.brokers)

    def test_produce(self) -> None:
        """By name and by id, it does not lead the partition; once it has the metadata, there is none."""
        by_id = produce_request(a_batch())
        by_id.topic_data[0].topic_id = NOBODYS

        def codes() -> list[int]:
            (topic,) = self.client.ask(by_id, 13).responses
            return [self.client.produce(topic="u").error_code, topic.partition_responses[0].error_code]

        self.assertEqual(codes(), [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2)
        self.told()
        self.assertEqual(codes(), [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID])

    def test_fetch(self) -> None:
        """The same, also in a session that names the partition once."""
        self.assertEqual(self.client.fetch(topic="u").error_code, ErrorCode.NOT_LEADER_OR_FOLLOWER)

        def code(*topics: FetchTopic, session_id: int = 0, epoch: int = 0) -> tuple[int, int]:
            asked = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=list(topics))
            asked.session_id, asked.session_epoch = session_id, epoch
            answer: Any = self.client.ask(asked, 13)
            return answer.session_id, answer.responses[0].partitions[0].error_code

        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        session_id, first = code(FetchTopic(topic_id=NOBODYS, partitions=[partition]))
        again = code(session_id=session_id, epoch=1)[1]
        self.assertEqual([first, again], [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2)
        self.told()
        self.assertEqual(code(session_id=session_id, epoch=2)[1], ErrorCode.UNKNOWN_TOPIC_ID)

    def test_share_fetch(self) -> None:
        """The same for a member of a share group."""

        def code() -> int:
            topic = ShareFetchTopic(
                topic_id=NOBODYS, partitions=[ShareFetchPartition(partition_index=0, acknowledgement_batches=[])]
            )
            answer: Any = self.client.ask(
                ShareFetchRequest(
                    group_id="g", member_id="m", share_session_epoch=0, max_wait_ms=0, min_bytes=1, max_records=1,
                    batch_size=1, topics=[topic], forgotten_topics_data=[],
                ),
                2,
            )  # fmt: skip
            self.assertEqual(answer.error_code, 0)
            found: int = answer.responses[0].partitions[0].error_code
            return found

        self.assertEqual(code(), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.told()
        self.assertEqual(code(), ErrorCode.UNKNOWN_TOPIC_ID)

    def test_offsets(self) -> None:
        """Nor are the partition's offsets there."""
        asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
        message = ListOffsetsRequest(topics=[ListOffsetsTopic(name="u", partitions=[asked])], replica_id=-1)

        def code() -> int:
            answer: Any = self.client.ask(message, 5)
            found: int = answer.topics[0].partitions[0].error_code
            return found

        self.assertEqual(code(), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.told()
        self.assertEqual(code(), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def test_offsets_of_groups(self) -> None:
        """Requests about the offsets of groups and transactions, which look topics up, wait for it."""
        apis = self.server.broker.kafka_server.router.apis
        self.assertEqual([key for key in (8, 9, 24, 28, 47) if not apis[key].waits_for_metadata], [])
        gate = self.server.broker.kafka_server.metadata_gate
        self.patch(gate, "_waiting", {})
        self.client.send(OffsetCommitRequest(group_id="g", topics=[]), 9)
        self.client.turn(1)
        self.assertEqual(self.client.answers(), [])
        gate.open()
        self.client.turn()
        self.assertEqual(len(self.client.answers()), 1)
