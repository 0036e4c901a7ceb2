"""Protection of internal topics against clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logbus.errors import ApiError, ErrorCode
from logbus.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from logbus.wire.messages.groups import FindCoordinatorRequest
from logbus.wire.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.handlers.kit import HandlerCase

TOPICS = ("__consumer_offsets", "__transaction_state")
INVALID = ErrorCode.INVALID_TOPIC_EXCEPTION
SET, DELETE, APPEND = 0, 1, 2


class InternalCase(HandlerCase):
    config: Mapping[str, str] = {
        "transaction.state.log.num.partitions": "3",
        "offsets.topic.num.partitions": "3",
    }


class ExistingTopicTests(InternalCase):
    """Internal topics that exist."""

    def setUp(self) -> None:
        super().setUp()
        for key_type in (0, 1):
            self.client.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]), 4)
        self.before = self.state()

    def state(self) -> Any:
        """All that is to stay."""
        topics = [self.server.broker.member.metadata.topic(name) for name in TOPICS]
        return [(topic.topic_id, len(topic.partitions), dict(topic.configs)) for topic in topics if topic is not None]

    def tearDown(self) -> None:
        self.assertEqual(self.state(), self.before)
        super().tearDown()

    def test_deleted(self) -> None:
        """Neither by name nor by id; other topics in the same request are."""
        for version in (3, 5):
            asked = DeleteTopicsRequest(topic_names=[*TOPICS], timeout_ms=1000)
            answers = self.client.ask(asked, version).responses
            self.assertEqual([each.error_code for each in answers], [INVALID, INVALID])
        by_id = [DeleteTopicState(topic_id=self.server.topic_id(name)) for name in TOPICS]
        answers = self.client.ask(
            DeleteTopicsRequest(topics=[*by_id, DeleteTopicState(name="t")], timeout_ms=1000), 6
        ).responses
        self.assertEqual([each.error_code for each in answers], [INVALID, INVALID, 0])
        self.assertIn(TOPICS[0], answers[0].error_message)

    def test_records_deleted(self) -> None:
        """As with Kafka."""
        asked = [
            DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
            for name in TOPICS
        ]
        answers = self.client.ask(DeleteRecordsRequest(topics=asked, timeout_ms=1000), 1).topics
        self.assertEqual([each.partitions[0].error_code for each in answers], [INVALID, INVALID])

    def test_more_partitions(self) -> None:
        """Groups and transactional ids are spread by their number."""
        asked = [CreatePartitionsTopic(name=name, count=9) for name in TOPICS]
        for validate_only in (True, False):
            answers = self.client.ask(
                CreatePartitionsRequest(topics=asked, timeout_ms=1000, validate_only=validate_only), 1
            ).results
            self.assertEqual([each.error_code for each in answers], [INVALID, INVALID])

    def alter(self, *configs: tuple[str, int, str | None]) -> list[int]:
        resources = [
            IncrementalAlterConfigsResource(
                resource_type=2,
                resource_name=name,
                configs=[
                    IncrementalAlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in configs
                ],
            )
            for name in TOPICS
        ]
        answers = self.client.ask(IncrementalAlterConfigsRequest(resources=resources), 1).responses
        return [each.error_code for each in answers]

    def test_cleaned_otherwise(self) -> None:
        """They are compacted, and nothing else."""
        refused = [ErrorCode.INVALID_CONFIG] * 2
        self.assertEqual(self.alter(("cleanup.policy", SET, "delete"), ("retention.ms", SET, "1")), refused)
        self.assertEqual(self.alter(("cleanup.policy", APPEND, "delete")), refused)
        self.assertEqual(self.alter(("cleanup.policy", DELETE, None)), refused)
        legacy = [
            AlterConfigsResource(
                resource_type=2, resource_name=name, configs=[AlterableConfig(name="retention.ms", value="1")]
            )
            for name in TOPICS
        ]
        answers = self.client.ask(AlterConfigsRequest(resources=legacy), 1).responses
        self.assertEqual([each.error_code for each in answers], refused)

    def test_configured(self) -> None:
        """Harmless settings of internal topics may be changed."""
        self.assertEqual(self.alter(("min.insync.replicas", SET, "1"), ("cleanup.policy", SET, " compact")), [0, 0])
        self.before = self.state()
        self.assertEqual(self.before[0][2]["min.insync.replicas"], "1")

    def test_appended_to(self) -> None:
        """Code inside a broker cannot write to internal topics, either."""
        for name in TOPICS:
            with self.assertRaises(ApiError) as caught:
                self.server.now(self.server.broker.plugin_services.append(name, [(b"k", b"v")]))
            self.assertEqual(caught.exception.code, INVALID)


class CreatedTopicTests(InternalCase):
    """Internal topics that clients create get the settings of internal topics."""

    def create(self, name: str, **configs: str) -> int:
        topic = CreatableTopic(
            name=name,
            num_partitions=5,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )
        return int(self.client.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code)

    def test_created(self) -> None:
        """Internal topics are always compacted."""
        for name in TOPICS:
            for policy in ("delete", "compact,delete", ""):
                self.assertEqual(self.create(name, cleanup_policy=policy), ErrorCode.INVALID_CONFIG)
        self.assertEqual(self.create(TOPICS[0]), 0)
        self.assertEqual(self.create(TOPICS[1], cleanup_policy="compact", segment_bytes="1048576"), 0)
        for name in TOPICS:
            topic = self.server.broker.member.metadata.topic(name)
            assert topic is not None
            self.assertEqual((len(topic.partitions), topic.configs["cleanup.policy"]), (5, "compact"))

    def test_share_states(self) -> None:
        """Records of share partitions are deleted by their coordinator only, as they are not compacted."""
        name = "__share_group_state"
        for wrong in ({"cleanup_policy": "compact"}, {"retention_ms": "1000"}, {"retention_bytes": "1000"}):
            self.assertEqual(self.create(name, **wrong), ErrorCode.INVALID_CONFIG)
        self.assertEqual(self.create(name, retention_ms="-1"), 0)
        topic = self.server.broker.member.metadata.topic(name)
        assert topic is not None
        self.assertEqual(topic.configs, {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1"})
