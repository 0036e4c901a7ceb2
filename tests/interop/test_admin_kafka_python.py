"""Administration by kafka-python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, NewTopic, OffsetSpec

from logbus.testing import Broker


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield admin
    admin.close()


@pytest.mark.one_broker
def test_topics(admin: KafkaAdminClient, topic: str) -> None:
    """A topic is created, described, listed, and deleted."""
    [created] = admin.create_topics([NewTopic(topic, 3, 1, topic_configs={"retention.ms": "60000"})])["topics"]
    assert (created["num_partitions"], created["replication_factor"]) == (3, 1)
    assert created["configs"]["retention.ms"]["value"] == "60000"
    [described] = admin.describe_topics([topic])
    assert described["topic_id"] == created["topic_id"]
    assert [p["partition_index"] for p in described["partitions"]] == [0, 1, 2]
    assert all((p["leader_id"], p["isr_nodes"], p["offline_replicas"]) == (0, [0], []) for p in described["partitions"])
    assert topic in admin.list_topics()
    with pytest.raises(kafka_errors.TopicAlreadyExistsError):
        admin.create_topics([NewTopic(topic, 1, 1)])
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    with pytest.raises(kafka_errors.UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


def test_validate_only(admin: KafkaAdminClient, topic: str) -> None:
    """A topic that is only validated is not created."""
    admin.create_topics([NewTopic(topic, 3, 1)], validate_only=True)
    assert topic not in admin.list_topics()


def test_recreated_topic(admin: KafkaAdminClient, broker: Broker, topic: str) -> None:
    """A deleted topic's successor has another id, and none of its records."""
    first = admin.create_topics([NewTopic(topic, 1, 1)])["topics"][0]["topic_id"]
    send(broker, topic, 3)
    admin.delete_topics([topic])
    second = admin.create_topics([NewTopic(topic, 1, 1)])["topics"][0]["topic_id"]
    assert second != first
    at = TopicPartition(topic, 0)
    assert admin.list_partition_offsets({at: OffsetSpec.LATEST})[at].offset == 0
    send(broker, topic, 1)
    assert admin.list_partition_offsets({at: OffsetSpec.LATEST})[at].offset == 1


def test_partitions(admin: KafkaAdminClient, topic: str) -> None:
    """Partitions are added, and never taken away."""
    admin.create_topics([NewTopic(topic, 2, 1)])
    admin.create_partitions({topic: 5})
    assert len(admin.describe_topics([topic])[0]["partitions"]) == 5
    for count in (5, 3):
        with pytest.raises(kafka_errors.InvalidPartitionsError):
            admin.create_partitions({topic: count})


@pytest.mark.parametrize("incremental", [True, False])
def test_configs(admin: KafkaAdminClient, topic: str, incremental: bool) -> None:
    """A topic's configuration is changed, described and given back, by either API."""
    admin.create_topics([NewTopic(topic, 1, 1)])

    def said() -> dict[str, str]:
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic]
        return {
            name: config["value"] for name, config in found.items() if config["config_source"].startswith("DYNAMIC")
        }

    def change(**settings: object) -> str:
        resource = ConfigResource(
            ConfigResourceType.TOPIC, topic, {k.replace("_", "."): v for k, v in settings.items()}
        )
        answer: str = admin.alter_configs([resource], incremental=incremental)["topic"][topic]
        return answer

    assert said() == {}
    assert change(retention_ms="5000", max_message_bytes="1000") == "OK"
    assert said() == {"retention.ms": "5000", "max.message.bytes": "1000"}
    assert "retention.ms: 'soon' is not valid" in change(retention_ms="soon")
    assert said() == {"retention.ms": "5000", "max.message.bytes": "1000"}
    if incremental:
        assert change(retention_ms=(AlterConfigOp.DELETE, None)) == "OK"
        assert change(cleanup_policy=(AlterConfigOp.APPEND, "compact")) == "OK"
        assert said() == {"max.message.bytes": "1000", "cleanup.policy": "delete,compact"}


def test_delete_records(admin: KafkaAdminClient, broker: Broker, topic: str) -> None:
    """Records before an offset are deleted; the offset is the first of the rest."""
    admin.create_topics([NewTopic(topic, 1, 1)])
    send(broker, topic, 10)
    at = TopicPartition(topic, 0)
    assert admin.delete_records({at: 4})[at]["low_watermark"] == 4
    assert admin.list_partition_offsets({at: OffsetSpec.EARLIEST})[at].offset == 4
    assert admin.delete_records({at: -1})[at]["low_watermark"] == 10
    with pytest.raises(kafka_errors.OffsetOutOfRangeError):
        admin.delete_records({at: 11})


def send(broker: Broker, topic: str, count: int, partition: int = 0) -> None:
    """Records one second apart, the last but one with the largest timestamp."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for number in range(count):
        late = 500_000 if number == count - 2 else 0
        producer.send(topic, b"%d" % number, None, None, partition, 1_000 * number + late).get(20)
    producer.close()


def test_offsets(admin: KafkaAdminClient, broker: Broker, topic: str) -> None:
    """First, last, by time, and of the largest timestamp."""
    # Timestamps of 1970 would be past any retention.
    admin.create_topics([NewTopic(topic, 1, 1, topic_configs={"retention.ms": "-1"})])
    at = TopicPartition(topic, 0)
    for what, expected in ((OffsetSpec.EARLIEST, 0), (OffsetSpec.LATEST, 0), (OffsetSpec.MAX_TIMESTAMP, -1)):
        assert admin.list_partition_offsets({at: what})[at].offset == expected
    send(broker, topic, 10)
    for what, offset, timestamp in (
        (OffsetSpec.EARLIEST, 0, -1),
        (OffsetSpec.LATEST, 10, -1),
        (OffsetSpec.MAX_TIMESTAMP, 8, 508_000),
        (0, 0, 0),
        (4_000, 4, 4_000),
        (4_001, 5, 5_000),
        (9_000, 8, 508_000),
        (508_001, -1, -1),
    ):
        found = admin.list_partition_offsets({at: what})[at]
        assert (found.offset, found.timestamp) == (offset, timestamp), what


@pytest.mark.one_broker
def test_cluster(admin: KafkaAdminClient, broker: Broker) -> None:
    """The cluster has an id, one broker, and that one is the controller."""
    found = admin.describe_cluster()
    host, _, port = broker.bootstrap.rpartition(":")
    assert found["controller_id"] == 0
    [only] = found["brokers"]
    assert only == {"broker_id": 0, "host": host, "port": int(port), "rack": None, "is_fenced": False}
    assert len(found["cluster_id"]) == 22


def test_pages(admin: KafkaAdminClient, topic: str) -> None:
    """A topic is described page by page, and the last page says that it is the last."""
    admin.create_topics([NewTopic(topic, 3, 1)])
    numbers, cursor = [], None
    for size in (2, 1):
        page = admin.describe_topic_partitions([topic], response_partition_limit=2, cursor=cursor)
        [described] = page["topics"]
        assert (described["error_code"], described["name"], len(described["partitions"])) == (0, topic, size)
        numbers += [p["partition_index"] for p in described["partitions"]]
        cursor = page["next_cursor"]
    assert (numbers, cursor) == ([0, 1, 2], None)


@pytest.mark.one_broker
def test_config_resources(admin: KafkaAdminClient, topic: str) -> None:
    """Topics, brokers and their loggers; other kinds are none."""
    admin.create_topics([NewTopic(topic, 1, 1)])
    found = admin.list_config_resources()
    assert found.keys() == {"topic", "broker", "broker_logger"}
    assert topic in found["topic"]
    assert found["broker"] == ["0"]
    assert admin.list_config_resources(["CLIENT_METRICS", "GROUP"]) == {}


def test_loggers(admin: KafkaAdminClient) -> None:
    """Levels of loggers are shown, set, refused and given up, as kafka-configs --entity-type broker-loggers does."""

    def level(name: str) -> str:
        resource = ConfigResource(ConfigResourceType.BROKER_LOGGER, "0")
        found = admin.describe_configs([resource], config_filter="all")["broker_logger"]["0"]
        return str(found[name]["value"])

    def change(value: object) -> str:
        change = ConfigResource(ConfigResourceType.BROKER_LOGGER, "0", {"logbus.metastore": value})
        answer: str = admin.alter_configs([change])["broker_logger"]["0"]
        return answer

    assert (level("root"), level("logbus.metastore")) == ("INFO", "INFO")
    try:
        assert change("WARN") == "OK"
        assert level("logbus.metastore") == "WARN"
        assert "'LOUD' is not a level; there are TRACE, DEBUG" in change("LOUD")
    finally:
        assert change((AlterConfigOp.DELETE, None)) == "OK"
    assert level("logbus.metastore") == "INFO"


def test_features(admin: KafkaAdminClient) -> None:
    """Features are told; they can be set to what they are, and to nothing else."""
    found = admin.describe_features()
    levels = {name: (feature["supported"], feature["finalized"]) for name, feature in found.items()}
    assert levels == {
        "group.version": ((0, 1), (1, 1)),
        "share.version": ((0, 1), (1, 1)),
        "streams.version": ((0, 1), (1, 1)),
        "transaction.version": ((0, 2), (2, 2)),
    }
    assert admin.update_features({"group.version": 1}) == {"group.version": "OK"}
    with pytest.raises(kafka_errors.InvalidUpdateVersionError):
        admin.update_features({"group.version": 2})


@pytest.mark.parametrize("name", ["a/b", "..", ".", "with space", "ü", "x" * 250])
def test_invalid_names(admin: KafkaAdminClient, name: str) -> None:
    """Names that could not be a directory's are refused, by creation and by look-up."""
    with pytest.raises(kafka_errors.InvalidTopicError):
        admin.create_topics([NewTopic(name, 1, 1)])
    [described] = admin.describe_topics([name])
    assert described["error_code"] == kafka_errors.InvalidTopicError.errno


@pytest.mark.one_broker
def test_invalid_topics(admin: KafkaAdminClient, topic: str) -> None:
    """No partitions, more replicas than brokers, unknown and wrong configuration."""
    for wrong, error in (
        (NewTopic(topic, 0, 1), kafka_errors.InvalidPartitionsError),
        (NewTopic(topic, 1, 2), kafka_errors.InvalidReplicationFactorError),
        (NewTopic(topic, 1, 1, topic_configs={"retention.sm": "1"}), kafka_errors.InvalidConfigurationError),
        (NewTopic(topic, 1, 1, topic_configs={"segment.bytes": "-1"}), kafka_errors.InvalidConfigurationError),
    ):
        with pytest.raises(error):
            admin.create_topics([wrong])
    assert topic not in admin.list_topics()


def test_broker_configs(admin: KafkaAdminClient) -> None:
    """A broker's own configuration is described, and a dynamic key of it changed and taken back."""
    resource = ConfigResource(ConfigResourceType.BROKER, "0")
    found = admin.describe_configs([resource], config_filter="all")["broker"]["0"]
    assert found["broker.id"]["read_only"]
    assert found["message.max.bytes"]["value"] == "1048588"
    for wanted, expected in (("2000000", "2000000"), ((AlterConfigOp.DELETE, None), "1048588")):
        change = ConfigResource(ConfigResourceType.BROKER, "0", {"message.max.bytes": wanted})
        assert admin.alter_configs([change])["broker"]["0"] == "OK"
        found = admin.describe_configs([resource], config_filter="all")["broker"]["0"]
        assert found["message.max.bytes"]["value"] == expected
