"""Time that passes at once, and brokers that say to be older."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from logbus.errors import ConfigError
from logbus.testing import Broker, BrokerFailed, Cluster, LocalCluster

SECONDS = 60


def test_retention() -> None:
    """Records are removed once they are too old."""
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        hour = {"retention.ms": "3600000", "segment.ms": "600000"}
        admin.create_topics([NewTopic("logs", 1, 1, config=hour)])["logs"].result(SECONDS)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("logs", b"old")
        assert producer.flush(SECONDS) == 0
        broker.advance(timedelta(minutes=30))
        assert len(broker.read("logs")) == 1
        broker.advance(timedelta(hours=3))
        for _ in range(1000):
            if not broker.read("logs"):
                break
        else:
            raise AssertionError("the records are still there")
        # A busy machine may keep the reactor for a moment, but not as long as one step of that time.
        assert all(int(ms) < 60_000 for ms in re.findall(r"blocked for (\d+) ms", broker.output))


def test_member_of_a_group() -> None:
    """A member that sends no heartbeat loses its partitions, though nobody waits."""
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(SECONDS)
        config = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "session.timeout.ms": 45000}
        config |= {"group.instance.id": "one", "heartbeat.interval.ms": 40000, "auto.offset.reset": "earliest"}
        silent = Consumer(config)
        silent.subscribe(["t"])
        while not silent.assignment():
            silent.poll(0.1)
        assert len(admin.describe_consumer_groups(["g"])["g"].result(SECONDS).members) == 1
        broker.advance(60)
        found = admin.describe_consumer_groups(["g"])["g"].result(SECONDS)
        assert len(found.members) == 0
        silent.close()


def test_transaction_time_out() -> None:
    """A transaction whose time is over is aborted, and its producer fenced."""
    with Broker() as broker:
        config = {"bootstrap.servers": broker.bootstrap, "transactional.id": "t", "transaction.timeout.ms": 50000}
        producer = Producer(config)
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        producer.produce("t", b"1")
        assert producer.flush(SECONDS) == 0
        broker.advance(120)
        with pytest.raises(KafkaException):
            producer.commit_transaction(SECONDS)
        assert broker.read("t", isolation="read_committed") == []


def test_wrong_time() -> None:
    """One line says what would be right."""
    with Broker() as broker:
        for wrong in (0, -1, "1", True, timedelta(0), float("nan")):
            with pytest.raises(ValueError, match=r"advance: .* is no time to come: expected a timedelta, or seconds"):
                broker.advance(wrong)  # type: ignore[arg-type]
    with pytest.raises(BrokerFailed, match="advance: the broker is closed"):
        broker.advance(1)


def test_older_broker() -> None:
    """Clients see the API versions of that release, and keep to them."""
    with Broker(as_version="2.1") as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("t", b"1")
        assert producer.flush(SECONDS) == 0
        assert {request.version for request in broker.requests.find("Produce")} <= set(range(8))
    with pytest.raises(ConfigError, match=r"'3\.6' is not a Kafka release whose API table is known; known: 2\.1, 2\.8"):
        Broker(as_version="3.6")


def test_an_upgrade() -> None:
    """A broker is upgraded while its client goes on; the next start is of another release."""
    with Broker(as_version="2.1") as broker:
        broker.admin.create_topic("t")
        broker.as_version = "3.6"
        with pytest.raises(BrokerFailed, match=r"'3\.6' is not a Kafka release"):
            broker.restart()
        broker.as_version = None
        broker.start()
        assert broker.admin.topics() == ["t"]


def test_older_cluster() -> None:
    """Its brokers replicate as ever; clients keep to the versions of that release."""
    with LocalCluster(as_version="2.8") as cluster:
        cluster.admin.create_topic("t", 1, 3)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        producer.produce("t", b"1")
        assert producer.flush(SECONDS) == 0
        leader = cluster.leader("t")
        assert {request.version for request in leader.requests.find("Produce")} <= set(range(10))
        leader.kill()
        cluster.leader("t", other_than=leader)
        assert [record.value for record in cluster.read("t")] == [b"1"]
    for clusters in (LocalCluster, Cluster):
        with pytest.raises(ConfigError, match=r"'3\.6' is not a Kafka release whose API table is known"):
            clusters(as_version="3.6")


def test_full_disk() -> None:
    """Writes are refused, the broker goes on, and takes records when there is space again."""
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(SECONDS)
        errors: list[KafkaError | None] = []
        producer = Producer({"bootstrap.servers": broker.bootstrap, "retries": 0})

        def produce() -> None:
            producer.produce("t", b"1", on_delivery=lambda error, record: errors.append(error))
            assert producer.flush(SECONDS) == 0

        produce()
        with broker.fill_disk() as full:
            produce()
            broker.requests.wait("Produce", timeout=SECONDS, error="KAFKA_STORAGE_ERROR")
            assert len(broker.read("t")) == 1
            with pytest.raises(KafkaException):
                admin.create_topics([NewTopic("other", 1, 1)])["other"].result(SECONDS)
        full.free()
        produce()
        assert [error is None for error in errors] == [True, False, True]
        assert len(broker.read("t")) == 2


def test_stop_with_a_full_disk() -> None:
    """It ends nevertheless, and what it had acknowledged is there at the next start."""
    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("t", b"1")
        assert producer.flush(SECONDS) == 0
        with broker.fill_disk():
            broker.stop()
        broker.start()
        assert len(broker.read("t")) == 1


def test_rebalance_on_command() -> None:
    """All members of a group join again."""
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(SECONDS)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "heartbeat.interval.ms": 50})
        consumer.subscribe(["t"])
        while not consumer.assignment():
            consumer.poll(0.1)
        joined = len(broker.requests.find("SyncGroup", error="NONE"))
        broker.force_rebalance("g")
        while len(broker.requests.find("SyncGroup", error="NONE")) == joined:
            consumer.poll(0.1)
        broker.requests.assert_order("JoinGroup", "SyncGroup", "Heartbeat")
        with pytest.raises(BrokerFailed, match="force_rebalance: there is no group 'other' of the classic protocol"):
            broker.force_rebalance("other")
        consumer.close()


def test_fenced_producer() -> None:
    """Its transaction is aborted, and it learns that another has its id."""
    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        producer.produce("t", b"1")
        assert producer.flush(SECONDS) == 0
        broker.fence_producer("t")
        with pytest.raises(KafkaException) as caught:
            producer.commit_transaction(SECONDS)
        assert caught.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
        assert broker.read("t", isolation="read_committed") == []


def test_hanging_transaction() -> None:
    """Consumers of committed records wait for its end: at its time-out, or when its producer is fenced."""
    with Broker() as broker:
        broker.admin.create_topic("t")
        name = broker.hang_transaction("t", transaction_timeout=timedelta(minutes=5), value=b"open")
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("t", b"behind")
        assert producer.flush(SECONDS) == 0
        assert broker.read("t", isolation="read_committed") == []
        assert [record.value for record in broker.read("t")] == [b"open", b"behind"]
        broker.fence_producer(name)
        assert [record.value for record in broker.wait_readable("t", 1, isolation="read_committed")] == [b"behind"]
        broker.hang_transaction("t", transactional_id="other")
        broker.advance(120)
        assert [record.value for record in broker.read("t", isolation="read_committed")] == [b"behind"]
