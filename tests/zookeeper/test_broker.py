"""A broker with its metadata in ZooKeeper: the nodes it writes, and outages of ZooKeeper."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from logbus.testing import Broker
from logbus.testing.broker import BrokerFailed
from logbus.testing.waiting import wait_until
from logbus.testing.zookeeper import ZooKeeper

SECONDS = 120.0


@pytest.fixture
def own() -> Iterator[ZooKeeper]:
    """A ZooKeeper that the test may stop."""
    with ZooKeeper() as running:
        yield running


@contextmanager
def tree(zookeeper: ZooKeeper) -> Iterator[Any]:
    """What is in ZooKeeper, seen by somebody else."""
    client = KazooClient(zookeeper.connect)
    client.start(SECONDS)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def a_broker(zookeeper: ZooKeeper, chroot: str = "/logbus", **more: Any) -> Broker:
    """A broker on this ZooKeeper, that misses it soon."""
    timeout = more.pop("session_timeout_ms", 6000)
    settings = {
        "zookeeper.connect": zookeeper.connect + chroot,
        "zookeeper.session.timeout.ms": str(timeout),
        **more.pop("config", {}),
    }
    return Broker(settings, **more)


def service_of(broker: Broker) -> Any:
    """The inside of a broker in this process."""
    return broker._runner.service  # type: ignore[union-attr]


def store_of(broker: Broker) -> Any:
    """Its metadata store."""
    return service_of(broker).member.store


def create(broker: Broker, topic: str, timeout: float = SECONDS, replicas: int = 1, **config: str) -> None:
    """Create a topic as an operator would."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    new = NewTopic(topic, num_partitions=2, replication_factor=replicas, config=config)
    admin.create_topics([new], operation_timeout=timeout, request_timeout=timeout)[topic].result(timeout + 5)


def produce(broker: Broker, topic: str, *values: bytes) -> None:
    """Have values acknowledged by all replicas."""
    failed: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "acks": "all", "message.timeout.ms": int(SECONDS * 1000)}
    )
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: error and failed.append(error))
    assert producer.flush(SECONDS) == 0
    assert failed == []


def consume(broker: Broker, topic: str, count: int) -> list[bytes]:
    """The values of partition 0, from its begin; the group's offset is committed."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes] = []
        deadline = time.monotonic() + SECONDS
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(message.value())
        consumer.commit(offsets=[TopicPartition(topic, 0, len(found))], asynchronous=False)
        return found
    finally:
        consumer.close()


def test_kafkas_tree(zookeeper: ZooKeeper) -> None:
    """Registration, cluster id, controller, topics and settings are where Kafka has them, in Kafka's JSON."""
    with a_broker(zookeeper, "/kafkas/tree", config={"broker.id": "7"}) as broker, tree(zookeeper) as client:
        create(broker, "orders", **{"retention.ms": "5000"})
        produce(broker, "orders", b"x")

        def node(path: str) -> Any:
            return json.loads(client.get(f"/kafkas/tree{path}")[0])

        host, _, port = broker.bootstrap.rpartition(":")
        registered = node("/brokers/ids/7")
        assert (registered["version"], registered["host"], registered["port"]) == (5, host, int(port))
        assert registered["endpoints"] == [f"kafka://{broker.bootstrap}"]
        assert node("/cluster/id")["id"] == service_of(broker).member.metadata.cluster_id
        assert node("/controller")["brokerid"] == 7
        assert client.get("/kafkas/tree/controller_epoch")[0] == b"1"
        topic = node("/brokers/topics/orders")
        assert (topic["version"], topic["partitions"]) == (3, {"0": [7], "1": [7]})
        state = node("/brokers/topics/orders/partitions/1/state")
        assert (state["leader"], state["isr"], state["leader_epoch"]) == (7, [7], 0)
        assert node("/config/topics/orders")["config"] == {"retention.ms": "5000"}
        session = client.get("/kafkas/tree/brokers/ids/7")[1].ephemeralOwner
        assert session == client.get("/kafkas/tree/controller")[1].ephemeralOwner == store_of(broker).session_id
        broker.stop()
        assert client.exists("/kafkas/tree/brokers/ids/7") is None
        assert client.exists("/kafkas/tree/controller") is None
        broker.start()
        assert client.get("/kafkas/tree/controller_epoch")[0] == b"2"
        assert consume(broker, "orders", 1) == [b"x"]


@pytest.mark.long
def test_an_outage(own: ZooKeeper) -> None:
    """
    Without ZooKeeper records are taken and given and offsets committed; changes are refused for now; with it
    everything goes on, without a restart.
    """
    with a_broker(own, session_timeout_ms=30_000) as broker:
        create(broker, "orders")
        produce(broker, "orders", b"before")
        assert consume(broker, "orders", 1) == [b"before"]
        store = store_of(broker)
        session = store.session_id
        own.kill()
        wait_until(lambda: store.state.value == "suspended", "the outage")
        produce(broker, "orders", b"during")
        assert consume(broker, "orders", 2) == [b"before", b"during"]
        with pytest.raises(KafkaException) as refused:
            create(broker, "late", 2)
        assert refused.value.args[0].name() in ("NOT_CONTROLLER", "_TIMED_OUT", "REQUEST_TIMED_OUT")
        own.start()
        wait_until(lambda: store.state.value == "connected", "the return")
        create(broker, "again")
        produce(broker, "again", b"x")
        produce(broker, "orders", b"after")
        assert consume(broker, "orders", 3) == [b"before", b"during", b"after"]
        assert store.session_id == session
        with tree(own) as client:
            assert client.exists("/logbus/brokers/topics/late") is None


@pytest.mark.long
def test_the_session_expires(zookeeper: ZooKeeper) -> None:
    """The broker registers again, once, as a younger one, is elected again, and loses nothing."""
    with a_broker(zookeeper, "/expires") as broker, tree(zookeeper) as client:
        create(broker, "orders")
        produce(broker, "orders", b"before")
        before = client.get("/expires/brokers/ids/0")[1]
        zookeeper.expire(*store_of(broker).credentials)
        wait_until(lambda: store_of(broker).generation == 2, "another session")

        def after() -> Any:
            found = client.exists("/expires/brokers/ids/0")
            return found if found is not None and found.czxid > before.czxid else None

        registered = wait_until(after, "another registration")
        assert registered.ephemeralOwner != before.ephemeralOwner
        create(broker, "again")
        produce(broker, "again", b"x")
        produce(broker, "orders", b"after")
        assert consume(broker, "orders", 2) == [b"before", b"after"]
        assert client.get("/expires/controller_epoch")[0] == b"2"
        assert client.exists("/expires/brokers/ids/0").czxid == registered.czxid
        assert service_of(broker).member.membership.epoch == registered.czxid


def test_killed_broker_restarts(zookeeper: ZooKeeper) -> None:
    """Its former life's registration is waited for until it expires; it is not deleted."""
    with a_broker(zookeeper, "/killed", in_process=False, session_timeout_ms=12_000) as broker:
        create(broker, "orders")
        produce(broker, "orders", b"x")
        broker.kill()
        broker.start()
        assert "is registered by another session; waiting up to 24 s" in broker.output
        assert consume(broker, "orders", 1) == [b"x"]


def test_duplicate_broker_id(zookeeper: ZooKeeper) -> None:
    """A second broker with the id of one that lives waits for two of its session timeouts, and then says who has it."""
    with a_broker(zookeeper, "/twice", session_timeout_ms=20_000) as first:
        second = a_broker(zookeeper, "/twice", session_timeout_ms=1000)
        before = time.monotonic()
        with pytest.raises(BrokerFailed, match=rf"broker.id 0 is taken by a broker at {first.bootstrap}"):
            second.start()
        assert time.monotonic() - before >= 2
        second.close()
        create(first, "orders")
        produce(first, "orders", b"x")


def test_another_cluster(zookeeper: ZooKeeper) -> None:
    """A data directory stays with its cluster."""
    with a_broker(zookeeper, "/one") as broker:
        broker.stop()
        other = a_broker(zookeeper, "/two", data_dir=broker.data_dir)
        with pytest.raises(BrokerFailed, match="cluster"):
            other.start()


@pytest.mark.long
def test_stopped_in_an_outage(own: ZooKeeper) -> None:
    """SIGTERM ends a broker in order while its ZooKeeper is away, and nothing has to be recovered afterwards."""
    with a_broker(own, in_process=False, session_timeout_ms=2000) as broker:
        create(broker, "orders")
        produce(broker, "orders", b"x")
        own.kill()
        broker.wait_logged("was lost; trying again", timeout=SECONDS)
        broker.stop()
        own.start()
        broker.start()
        assert consume(broker, "orders", 1) == [b"x"]


def test_stop_while_waiting_for_the_former_session(zookeeper: ZooKeeper) -> None:
    """SIGTERM ends a broker that waits for its own registration to expire."""
    with a_broker(zookeeper, "/former", in_process=False, session_timeout_ms=60_000) as broker:
        broker.kill()
        broker.launch()
        broker.wait_logged("is registered by another session", timeout=SECONDS)
        before = time.monotonic()
        broker.stop()
        assert "Traceback" not in broker.output
        assert " ready: " not in broker.output
        # The registration would be there for a minute.
        assert time.monotonic() - before < 40


def test_stopped_while_waiting() -> None:
    """A broker that finds no ZooKeeper waits and says for what; SIGTERM ends it."""
    with closing(Broker({"zookeeper.connect": "127.0.0.1:1/x"}, in_process=False)) as broker:
        broker.launch()
        broker.wait_logged("waiting for ZooKeeper at 127.0.0.1:1/x, which does", timeout=SECONDS)
        broker.stop()
        assert "Traceback" not in broker.output
