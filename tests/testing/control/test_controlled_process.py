"""What a test has a broker in a process of its own do: the same as one in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from logbus.testing import Broker, BrokerFailed
from logbus.testing.waiting import wait_until

SECONDS = 120


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """It has the default settings."""
    with Broker(in_process=False) as started:
        yield started


@pytest.fixture(autouse=True)
def clean(broker: Broker) -> Iterator[None]:
    """Each test begins without requests, and ends its faults."""
    broker.requests.clear()
    yield
    assert list(broker.faults.active) == []


def write(broker: Broker, topic: str, *values: str, **options: object) -> list[KafkaError | None]:
    """Write values: the error of each that was not written."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "retry.backoff.ms": 1, "linger.ms": 0, **options})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
        producer.flush(SECONDS)
    return [each for each in errors if each is not None]


def test_faults_and_requests(broker: Broker) -> None:
    """A fault happens as often as it shall; what was asked, answered and done by the test is known in its order."""
    with broker.faults.fail("Produce", error="NOT_ENOUGH_REPLICAS", topic="orders", times=2) as fault:
        assert write(broker, "orders", "1") == []
        assert fault.hits == 2
        assert fault.wait(2, 0)
    broker.requests.mark("written")
    assert len(broker.read("orders")) == 1
    failed = broker.requests.assert_count("Produce", 2, error="NOT_ENOUGH_REPLICAS")
    written = broker.requests.assert_count("Produce", 1, error="NONE")
    assert [each.topics for each in (*failed, *written)] == [("orders",)] * 3
    assert all(each.answered is not None and each.answered >= each.received for each in failed)
    broker.requests.assert_order("Metadata", "Produce", broker.requests.marked("written"))
    broker.requests.clear()
    assert len(broker.requests) == 0


def test_over_a_crash(broker: Broker) -> None:
    """A broker that is killed comes back with its faults, and with what they have done."""
    broker.faults.fail("Produce", error="NOT_ENOUGH_REPLICAS", topic="crash", skip=1, times=2)
    assert write(broker, "crash", "1") == []
    assert write(broker, "crash", "2", **{"message.send.max.retries": 0}) != []
    broker.kill()
    assert [each.hits for each in broker.faults.active] == [1]
    before = len(broker.requests)
    broker.start()
    assert write(broker, "crash", "3", **{"message.send.max.retries": 0}) != []
    assert write(broker, "crash", "4") == []
    assert len(broker.requests) > before
    assert [record.value for record in broker.read("crash")] == [b"1", b"4"]


def test_frozen(broker: Broker) -> None:
    """What a broker that stands still is to do, it does afterwards."""
    broker.freeze()
    fault = broker.faults.disconnect("Produce", topic="frozen", times=1)
    assert fault.hits == 0
    broker.thaw()
    assert write(broker, "frozen", "1") == []
    assert fault.hits == 1


def test_time(broker: Broker) -> None:
    """A transaction is aborted when its time is over."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": "t", "transaction.timeout.ms": 60000}
    )
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce("timed", b"1")
    assert producer.flush(SECONDS) == 0
    broker.advance(120)
    with pytest.raises(KafkaException):
        producer.commit_transaction(SECONDS)
    assert broker.read("timed", isolation="read_committed") == []


def test_full_disk(broker: Broker) -> None:
    """Writes are refused until there is space again."""
    assert write(broker, "full", "1") == []
    with broker.fill_disk():
        assert write(broker, "full", "2", **{"message.timeout.ms": 1000}) != []
    assert write(broker, "full", "3") == []
    assert broker.read("full")[-1].value == b"3"


def test_rebalance(broker: Broker) -> None:
    """All members join again; a group that is not there is one line."""
    options = {"group.id": "g", "auto.offset.reset": "earliest", "heartbeat.interval.ms": 100}
    assert write(broker, "grouped", "1") == []
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, **options})
    try:
        consumer.subscribe(["grouped"])
        assert consumer.poll(SECONDS) is not None
        broker.wait_stable("g")
        joined = len(broker.requests.find("JoinGroup"))
        broker.force_rebalance("g")
        wait_until(lambda: consumer.poll(0.1) or len(broker.requests.find("JoinGroup")) > joined, "another join")
    finally:
        consumer.close()
    with pytest.raises(BrokerFailed, match="there is no group 'none' of the classic protocol with members here"):
        broker.force_rebalance("none")


def test_workers() -> None:
    """Each worker has the faults, and their requests are in one history."""
    with Broker({"workers": 2, "num.partitions": 2}, in_process=False) as both:
        fault = both.faults.fail("Produce", error="NOT_ENOUGH_REPLICAS", times=1)
        producer = Producer({"bootstrap.servers": both.bootstrap, "retry.backoff.ms": 1, "linger.ms": 0})
        for partition in (0, 1):
            producer.produce("both", b"1", partition=partition)
        assert producer.flush(SECONDS) == 0
        assert fault.hits == 2
        assert list(both.faults.active) == []
        both.requests.assert_count("Produce", 2, error="NOT_ENOUGH_REPLICAS")


def test_uncontrolled() -> None:
    """For measurements, nothing of the kit is in the broker: one line says so."""
    broker = Broker(in_process=False, controlled=False)
    for what in (lambda: broker.faults, lambda: broker.requests, broker.fill_disk, lambda: broker.advance(1)):
        with pytest.raises(
            BrokerFailed, match="the broker was made with controlled=False, and knows nothing of its test"
        ):
            what()
    broker.close()
