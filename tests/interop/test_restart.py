"""Tests that acknowledged records are there, byte for byte, after a clean restart and after SIGKILL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka import TopicPartition as PyPartition
from kafka.errors import OffsetOutOfRangeError

from logbus.testing import Broker
from tests.interop.clients import CLIENTS, CODECS, Client, Message
from tests.interop.conftest import MakeBroker
from tests.interop.test_offsets import create

SECONDS = 120
PARTITIONS = 20
STOPS: dict[str, Callable[[Broker], None]] = {"SIGTERM": Broker.stop, "SIGKILL": Broker.kill}


@pytest.fixture(params=STOPS)
def stop(request: pytest.FixtureRequest) -> Callable[[Broker], None]:
    """Each way of ending a broker in turn."""
    return STOPS[request.param]


def test_every_client_and_codec(make_broker: MakeBroker, stop: Callable[[Broker], None]) -> None:
    """Messages of each library with each codec, on 20 partitions, and more of them after the restart."""
    broker = make_broker({"num.partitions": str(PARTITIONS), "log.segment.bytes": "40000"})
    kinds = [(client, codec) for client in CLIENTS[:3] for codec in CODECS]

    def messages(partition: int, part: str) -> list[Message]:
        return [
            Message(f"{part}/{n} ".encode() * 40, f"{partition}/{n}".encode(), (("part", part.encode()),))
            for n in range(50)
        ] + [Message(None, b"gone"), Message(b"", b"empty")]

    for partition in range(PARTITIONS):
        client, codec = kinds[partition % len(kinds)]
        client.produce(
            broker.bootstrap,
            "t",
            messages(partition, "before"),
            partition=partition,
            codec=codec,
            idempotent=partition % 2 == 0,
        )
    before = broker.bootstrap
    stop(broker)
    broker.start()
    assert broker.bootstrap == before
    for partition in range(PARTITIONS):
        client, codec = kinds[-partition % len(kinds)]
        client.produce(broker.bootstrap, "t", messages(partition, "after"), partition=partition, codec=codec)
    for partition in range(PARTITIONS):
        expected = messages(partition, "before") + messages(partition, "after")
        reader: Client = CLIENTS[partition % len(CLIENTS)]
        found = reader.fetch(broker.bootstrap, "t", len(expected), partition=partition)
        assert found == expected, reader.name
        assert [message.offset for message in found] == list(range(len(expected)))


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.long
def test_running_producer(make_broker: MakeBroker, stop: Callable[[Broker], None], idempotent: bool) -> None:
    """
    A producer in the middle of its work rides over a restart: all it was told is there, is there.

    An idempotent one's messages are there once each, in order, without a gap.
    """
    broker = make_broker()
    create(broker, "t")
    acknowledged: list[bytes] = []
    some, more = threading.Event(), threading.Event()

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            acknowledged.append(message.value())
            some.set()
            if stopped:
                more.set()

    stopped: list[bool] = []
    done = threading.Event()
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": idempotent,
            "max.in.flight": 5 if idempotent else 1,
            "acks": "all",
            "linger.ms": 1,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
            "log_level": 0,
        }
    )
    sent = 0

    def produce() -> None:
        nonlocal sent
        while not done.is_set():
            producer.produce("t", b"%d" % sent, partition=0, on_delivery=delivered)
            sent += 1
            producer.poll(0.0005)
            while len(producer) > 1_000 and not done.is_set():
                producer.poll(0.05)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        assert some.wait(SECONDS)
        stop(broker)
        broker.start()
        stopped.append(True)
        assert more.wait(SECONDS)
    finally:
        done.set()
        thread.join()
    assert producer.flush(SECONDS) == 0
    assert len(acknowledged) == sent
    found = [message.value for message in CLIENTS[0].fetch(broker.bootstrap, "t", sent)]
    if idempotent:
        assert found == [b"%d" % number for number in range(sent)]
    else:
        # A batch that was written and not answered is sent a second time: never less than once, and in order.
        assert list(dict.fromkeys(found)) == [b"%d" % number for number in range(len(set(found)))]


def test_topics_and_settings(make_broker: MakeBroker, stop: Callable[[Broker], None]) -> None:
    """Topics keep their ids and settings, deleted ones stay deleted, deleted records stay deleted."""
    broker = make_broker()
    create(broker, "kept", 3, max_message_bytes="12345")
    create(broker, "deleted")
    CLIENTS[0].produce(broker.bootstrap, "kept", [Message(b"%d" % number) for number in range(10)])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_topics(["deleted"]).values():
        future.result(SECONDS)
    for future in admin.delete_records([TopicPartition("kept", 0, 4)]).values():
        future.result(SECONDS)

    def described() -> tuple[Any, ...]:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        topic = admin.describe_topics(TopicCollection(["kept"]))["kept"].result(SECONDS)
        listing = admin.list_topics(timeout=SECONDS)
        return str(topic.topic_id), len(topic.partitions), sorted(listing.topics), listing.cluster_id

    before = described()
    stop(broker)
    broker.start()
    assert described() == before
    assert before[2] == ["kept"]
    found = CLIENTS[1].fetch(broker.bootstrap, "kept", 6, offset=4)
    assert [message.value for message in found] == [b"%d" % number for number in range(4, 10)]
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None, auto_offset_reset="none")
    try:
        at = PyPartition("kept", 0)
        consumer.assign([at])
        consumer.seek(at, 3)
        with pytest.raises(OffsetOutOfRangeError):
            consumer.poll(SECONDS * 1000)
    finally:
        consumer.close(autocommit=False)
