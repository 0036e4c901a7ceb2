"""Real clients meet the faults of a broker: each kind, with what the client makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import CorruptRecordError, TopicAuthorizationFailedError
from twisted.internet import defer, task

from logbus.client import EARLIEST, Cluster
from logbus.client import Consumer as LogbusConsumer
from logbus.client import Producer as LogbusProducer
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition as LogbusPartition
from logbus.testing import Broker

SECONDS = 60
QUICK = {"retry.backoff.ms": 1, "retry.backoff.max.ms": 10, "reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 10}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One broker for all; each test has topics of its own, and ends its faults."""
    with Broker() as running:
        yield running


@pytest.fixture(autouse=True)
def no_fault_is_left(broker: Broker) -> Iterator[None]:
    yield
    broker.faults.clear()


def create(broker: Broker, *names: str, partitions: int = 1) -> None:
    """Create topics."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics([NewTopic(name, partitions, 1) for name in names]).values():
        made.result(SECONDS)


def producer(broker: Broker, **config: Any) -> Producer:
    """librdkafka, quick to try again."""
    return Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, **QUICK, **config})


def delivered(client: Producer, topic: str, *values: bytes, partition: int = 0) -> list[KafkaError | None]:
    """The errors of records, once all are reported."""
    errors: list[KafkaError | None] = []
    for value in values:
        client.produce(topic, value, partition=partition, on_delivery=lambda error, record: errors.append(error))
    assert client.flush(SECONDS) == 0
    return errors


def stored(broker: Broker, topic: str, partition: int = 0) -> list[bytes]:
    """The records of a partition."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", **QUICK})
    end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=SECONDS)[1]
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = [record.value() for record in consumer.consume(end, SECONDS)] if end else []
    consumer.close()
    return found


def test_produce_fails_twice(broker: Broker) -> None:
    """librdkafka tries again on a retriable error, and writes the record once."""
    create(broker, "twice")
    with broker.faults.fail("Produce", error="NOT_ENOUGH_REPLICAS", times=2, topic="twice") as fault:
        assert delivered(producer(broker), "twice", b"1") == [None]
        assert fault.hits == 2
        assert fault.wait(2, 0)
    assert stored(broker, "twice") == [b"1"]


def test_other_topics_and_partitions_are_served(broker: Broker) -> None:
    """A request of two partitions: one fails, the records of the other are written."""
    create(broker, "parts", partitions=2)
    client = producer(broker, **{"linger.ms": 50})
    errors: dict[int, KafkaError | None] = {}
    with broker.faults.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED", topic="parts", partition=1) as fault:
        for number in (0, 1):
            client.produce("parts", b"x", partition=number, on_delivery=lambda e, r: errors.update({r.partition(): e}))
        assert client.flush(SECONDS) == 0
        assert fault.hits
    assert errors[0] is None
    assert errors[1] is not None and errors[1].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert (stored(broker, "parts", 0), stored(broker, "parts", 1)) == ([b"x"], [])


def test_answer_is_lost_after_the_write(broker: Broker) -> None:
    """Without idempotence a producer writes twice what it got no answer for; with it, once."""
    create(broker, "plain", "idempotent")
    with broker.faults.disconnect("Produce", times=1, after=True):
        assert delivered(producer(broker), "plain", b"1") == [None]
    assert stored(broker, "plain") == [b"1", b"1"]
    with broker.faults.disconnect("Produce", times=1, after=True) as fault:
        assert delivered(producer(broker, **{"enable.idempotence": True}), "idempotent", b"1") == [None]
        assert fault.hits == 1
    assert stored(broker, "idempotent") == [b"1"]


def test_error_after_the_write(broker: Broker) -> None:
    """A broker that wrote the records and says that it could not."""
    create(broker, "said")
    with broker.faults.fail("Produce", error="REQUEST_TIMED_OUT", times=1, topic="said", after=True):
        assert delivered(producer(broker), "said", b"1") == [None]
    assert stored(broker, "said") == [b"1", b"1"]


def test_no_answer(broker: Broker) -> None:
    """The client gives up after its own time-out."""
    create(broker, "silent")
    client = producer(broker, **{"message.timeout.ms": 300})
    with broker.faults.drop("Produce", topic="silent") as fault:
        [error] = delivered(client, "silent", b"1")
        assert error is not None and error.code() == KafkaError._MSG_TIMED_OUT
        assert fault.hits >= 1
    assert stored(broker, "silent") == []


def test_only_one_client(broker: Broker) -> None:
    """Others are served."""
    create(broker, "some")
    with broker.faults.fail("Produce", error="MESSAGE_TOO_LARGE", client_id="shop-*") as fault:
        [error] = delivered(producer(broker, **{"client.id": "shop-1"}), "some", b"1")
        assert error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE
        assert delivered(producer(broker, **{"client.id": "office"}), "some", b"2") == [None]
        assert fault.hits == 1


def test_delay(broker: Broker) -> None:
    """Late, but in order; the records are those that were sent."""
    create(broker, "late")
    client = producer(broker)
    assert delivered(client, "late", b"0") == [None]
    with broker.faults.delay("Produce", 0.2, times=2, topic="late") as fault:
        assert delivered(client, "late", *[b"%d" % number for number in range(1, 30)]) == [None] * 29
        assert fault.hits
    assert stored(broker, "late") == [b"%d" % number for number in range(30)]


def test_requests_that_were_recognized(broker: Broker) -> None:
    """A connection whose requests take the fast paths meets a fault that is added later."""
    create(broker, "fast")
    client = producer(broker)
    for _ in range(20):
        assert delivered(client, "fast", b"1") == [None]
    with broker.faults.fail("Produce", error="MESSAGE_TOO_LARGE", topic="fast", times=1):
        [error] = delivered(client, "fast", b"2")
        assert error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert delivered(client, "fast", b"3") == [None]
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "fast", "auto.offset.reset": "earliest", **QUICK}
    )
    consumer.assign([TopicPartition("fast", 0, 0)])
    assert len(consumer.consume(21, SECONDS)) == 21
    with broker.faults.fail("Fetch", error="TOPIC_AUTHORIZATION_FAILED", topic="fast", times=1) as fault:
        while not fault.hits or (record := consumer.poll(1)) is None:
            pass
    assert record.error().code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    consumer.close()


def test_metadata_of_one_topic(broker: Broker) -> None:
    """The brokers are still in the answer: only the topic has no leader."""
    create(broker, "leaderless")
    with broker.faults.fail("Metadata", error="LEADER_NOT_AVAILABLE", topic="leaderless", times=3) as fault:
        assert delivered(producer(broker, **{"topic.metadata.refresh.fast.interval.ms": 5}), "leaderless", b"1") == [
            None
        ]
        assert fault.hits == 3


def test_corrupt_records(broker: Broker) -> None:
    """kafka-python finds that the checksum of a batch is wrong."""
    create(broker, "bent")
    delivered(producer(broker), "bent", b"x" * 1000)
    consumer = KafkaConsumer(
        "bent", bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", retry_backoff_ms=5
    )
    with broker.faults.corrupt("Fetch", topic="bent", times=1), pytest.raises(CorruptRecordError):
        consumer.poll(timeout_ms=SECONDS * 1000)
    consumer.close()


@pytest.mark.parametrize("how", ["cut", "correlation"])
def test_corrupt_answer(broker: Broker, how: str) -> None:
    """A client that cannot read an answer does not take it for another one."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUICK})
    wanted = [NewTopic(f"made-{how}", 1, 1)]
    with broker.faults.corrupt("CreateTopics", how=how) as fault:
        # On a busy machine the time may be over before a request was sent.
        while not fault.hits:
            with pytest.raises(KafkaException):
                admin.create_topics(wanted, request_timeout=0.5)[f"made-{how}"].result(SECONDS)
    assert f"made-{how}" in admin.list_topics(timeout=SECONDS).topics


def test_throttle(broker: Broker) -> None:
    """Answers take the time that their bytes take at that rate."""
    create(broker, "slow")
    delivered(producer(broker), "slow", *[b"x" * 5000] * 4)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "slow", **QUICK})
    consumer.assign([TopicPartition("slow", 0, 0)])
    with broker.faults.throttle("Fetch", 100_000, topic="slow") as fault:
        assert consumer.poll(0.1) is None
        assert len(consumer.consume(4, SECONDS)) == 4
        assert fault.hits
    consumer.close()


def test_kafka_python(broker: Broker) -> None:
    """It fetches in a session, whose requests do not repeat the partitions; and tries again where Kafka says so."""
    create(broker, "session", "session-2")
    writer = KafkaProducer(bootstrap_servers=broker.bootstrap, retry_backoff_ms=5)
    with broker.faults.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", topic="session", times=1) as fault:
        assert writer.send("session", b"1").get(SECONDS).offset == 0
        assert fault.hits == 1
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", retry_backoff_ms=5)
    consumer.subscribe(["session", "session-2"])
    assert next(consumer).value == b"1"
    consumer.poll(timeout_ms=10)
    with (
        broker.faults.fail("Fetch", error="TOPIC_AUTHORIZATION_FAILED", topic="session", times=1) as fault,
        pytest.raises(TopicAuthorizationFailedError),
    ):
        while True:
            consumer.poll(timeout_ms=1000)
    assert fault.hits == 1
    writer.send("session-2", b"2").get(SECONDS)
    assert next(consumer).value == b"2"
    consumer.close()
    writer.close()


def test_our_client(broker: Broker) -> None:
    """The Twisted client tries again where Kafka says so, and reports what it cannot mend."""
    from twisted.internet.selectreactor import SelectReactor

    create(broker, "ours")
    reactor = SelectReactor()
    failures: list[BaseException] = []

    async def use() -> None:
        cluster = Cluster(reactor, broker.bootstrap)
        writer = LogbusProducer(cluster)
        broker.faults.corrupt("Metadata", how="garbage", topic="ours", times=1)
        with broker.faults.fail("Produce", error="NOT_ENOUGH_REPLICAS", topic="ours", times=1) as fault:
            assert (await writer.send("ours", b"1")).offset == 0
            assert fault.hits == 1
        with broker.faults.fail("Produce", error="MESSAGE_TOO_LARGE", topic="ours", times=1):
            with pytest.raises(ApiError) as caught:
                await writer.send("ours", b"2")
            assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
        reader = LogbusConsumer(cluster)
        reader.assign({LogbusPartition("ours", 0): EARLIEST})
        with broker.faults.disconnect("Fetch", topic="ours", times=1) as fault:
            found = await reader.poll(timeout=SECONDS)
            while not found:
                found = await reader.poll(timeout=SECONDS)
            assert fault.hits == 1
        assert [record.value for records in found.values() for record in records] == [b"1"]
        await reader.close()
        await writer.close()
        await cluster.close()

    def begin() -> None:
        done = defer.Deferred.fromCoroutine(use())
        done.addErrback(lambda failure: failures.append(failure.value))
        done.addBoth(lambda _: task.deferLater(reactor, 0, reactor.stop))

    reactor.callWhenRunning(begin)
    reactor.run(installSignalHandlers=False)
    for failure in failures:
        raise failure


def test_faults_survive_a_restart_and_do_not_hold_a_stop() -> None:
    """Requests without an answer are given up when the broker stops."""
    with Broker() as broker:
        create(broker, "t")
        fault = broker.faults.drop("Produce", topic="t")
        client = producer(broker, **{"message.timeout.ms": 2000})
        client.produce("t", b"1", partition=0)
        assert fault.wait(1, SECONDS)
        broker.restart()
        assert fault.wait(2, SECONDS)
        assert [each.rule for each in broker.faults.active] == [fault.rule]
        client.purge()
        client.flush(0)
