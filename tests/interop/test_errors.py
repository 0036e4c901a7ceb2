"""Tests the errors that clients get for invalid requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka import errors as aio_errors
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer
from kafka import errors as py_errors

from logbus.testing import Broker
from tests.interop.clients import CLIENT_MAX, CLIENTS, Client, KcatFailed, Message, kcat
from tests.interop.conftest import MakeBroker
from tests.interop.test_offsets import create

SECONDS = 120
BIG = bytes(1_100_000)
TOO_LARGE = (KafkaException, py_errors.MessageSizeTooLargeError, aio_errors.MessageSizeTooLargeError, KcatFailed)


def test_too_large_for_the_broker(broker: Broker, topic: str, client: Client) -> None:
    """A message over message.max.bytes is refused as that, and what follows is taken."""
    with pytest.raises(TOO_LARGE) as caught:
        client.produce(broker.bootstrap, topic, [Message(BIG)])
    if isinstance(caught.value, KafkaException):
        assert caught.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    if isinstance(caught.value, KcatFailed):
        assert "Message size too large" in str(caught.value)
    client.produce(broker.bootstrap, topic, [Message(b"small")])
    assert client.fetch(broker.bootstrap, topic, 1) == [Message(b"small")]


def test_too_large_for_the_topic(broker: Broker, topic: str, client: Client) -> None:
    """max.message.bytes of the topic counts, of the batch as it is stored: compressed."""
    create(broker, topic, max_message_bytes="2000")
    with pytest.raises(
        (KafkaException, py_errors.MessageSizeTooLargeError, aio_errors.MessageSizeTooLargeError, KcatFailed)
    ):
        client.produce(broker.bootstrap, topic, [Message(bytes(4_000))])
    client.produce(broker.bootstrap, topic, [Message(bytes(4_000))], codec="gzip")
    assert client.fetch(broker.bootstrap, topic, 1) == [Message(bytes(4_000))]


@pytest.fixture(scope="module")
def strict_broker() -> Iterator[Broker]:
    """A broker on which topics do not come into being by being named."""
    with Broker({"auto.create.topics.enable": "false"}) as broker:
        yield broker


def test_unknown_topic_to_confluent(strict_broker: Broker, topic: str) -> None:
    """librdkafka says which topic it is that is unknown."""
    errors: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": strict_broker.bootstrap,
            "topic.metadata.propagation.max.ms": 0,
            "message.timeout.ms": SECONDS * 1000,
        }
    )
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(SECONDS) == 0
    [error] = errors
    assert error.code() in (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)
    admin = AdminClient({"bootstrap.servers": strict_broker.bootstrap})
    found = admin.list_topics(topic, timeout=SECONDS).topics[topic]
    assert found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert topic not in admin.list_topics(timeout=SECONDS).topics


def test_unknown_topic_to_kafka_python(strict_broker: Broker, topic: str) -> None:
    """kafka-python waits for the topic as long as it was told to."""
    producer = KafkaProducer(bootstrap_servers=strict_broker.bootstrap, max_block_ms=500)
    try:
        with pytest.raises(py_errors.KafkaError):
            producer.send(topic, b"x").get(SECONDS)
    finally:
        producer.close(SECONDS)


def test_unknown_topic_to_aiokafka(strict_broker: Broker, topic: str) -> None:
    """aiokafka names the error."""

    async def send() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=strict_broker.bootstrap, request_timeout_ms=3000)
        await producer.start()
        try:
            with pytest.raises((aio_errors.UnknownTopicOrPartitionError, aio_errors.KafkaTimeoutError)):
                await producer.send_and_wait(topic, b"x")
        finally:
            await producer.stop()

    asyncio.run(send())


def test_unknown_topic_to_kcat(strict_broker: Broker, topic: str) -> None:
    """kcat says it on standard error, and ends with status 1."""
    with pytest.raises(KcatFailed, match=f"Topic {topic} error: Broker: Unknown topic or partition"):
        kcat(strict_broker.bootstrap, "-C", "-t", topic, "-p", "0", "-e")


@pytest.mark.parametrize("name", ["a/b", "..", "x" * 250])
def test_invalid_topic_name(broker: Broker, name: str) -> None:
    """Names that could not be a directory's are refused to who produces, too."""
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": SECONDS * 1000})
    producer.produce(name, b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(SECONDS) == 0
    assert [error.code() for error in errors] == [KafkaError.TOPIC_EXCEPTION]
    assert name not in AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=SECONDS).topics


def test_missing_partition(broker: Broker, topic: str) -> None:
    """A partition beyond the last is unknown; the others go on."""
    create(broker, topic, 2)
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": SECONDS * 1000})
    for partition in (0, 1, 2):
        try:
            producer.produce(topic, b"x", partition=partition, on_delivery=lambda error, _: errors.append(error))
        except KafkaException as e:
            errors.append(e.args[0])
    assert producer.flush(SECONDS) == 0
    assert [error.code() for error in errors if error] == [KafkaError._UNKNOWN_PARTITION]


def test_a_key_is_required_where_keys_matter(broker: Broker, topic: str) -> None:
    """A compacted topic refuses a record without a key, by error 87."""
    create(broker, topic, cleanup_policy="compact")
    with pytest.raises(KafkaException) as caught:
        CLIENTS[0].produce(broker.bootstrap, topic, [Message(b"no key")])
    assert caught.value.args[0].code() == KafkaError.INVALID_RECORD
    CLIENTS[0].produce(broker.bootstrap, topic, [Message(b"value", b"key")])


@pytest.mark.parametrize("clients", [8])
def test_many_producers_create_one_topic(broker: Broker, topic: str, clients: int) -> None:
    """A topic that many clients name first at once comes into being once, and nothing sent to it is lost."""
    at_once = Barrier(clients)

    def produce(number: int) -> None:
        client = CLIENTS[number % 3]
        at_once.wait(SECONDS)
        client.produce(broker.bootstrap, topic, [Message(b"%d" % number)] * 10)

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(produce, range(clients)))
    found = CLIENTS[0].fetch(broker.bootstrap, topic, clients * 10)
    assert sorted(int(m.value or b"") for m in found) == sorted(list(range(clients)) * 10)


def test_full_answer_of_a_small_limit(make_broker: MakeBroker, topic: str, library: Client) -> None:
    """A record larger than what a consumer asks for at a time still comes."""
    broker = make_broker({"message.max.bytes": str(CLIENT_MAX), "fetch.max.bytes": "1024"}, in_process=True)
    sent = [Message(bytes([number]) * 3_000_000) for number in range(3)]
    library.produce(broker.bootstrap, topic, sent)
    assert library.fetch(broker.bootstrap, topic, 3) == sent
