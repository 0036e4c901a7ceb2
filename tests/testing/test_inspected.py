"""What a test asks of a broker or a cluster, and what it is told when it waits in vain."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer

from logbus.client import SimpleConsumer
from logbus.errors import ApiError, ErrorCode
from logbus.testing import Broker, BrokerFailed, LocalCluster
from logbus.testing.waiting import WaitTimedOut

SECONDS = 60


@pytest.fixture(scope="module", params=["broker", "cluster"])
def server(request: pytest.FixtureRequest) -> Iterator[Broker | LocalCluster]:
    """One for all tests, which have topics of their own."""
    with Broker() if request.param == "broker" else LocalCluster(2) as running:
        yield running


@pytest.fixture
def topic(server: Broker | LocalCluster) -> str:
    """A topic of two partitions."""
    name = f"t-{uuid4().hex[:8]}"
    server.admin.create_topic(name, 2)
    return name


def write(server: Broker | LocalCluster, topic: str, *values: bytes, partition: int = 0, commit: bool = True) -> None:
    """Write records, in a transaction of which they are part or which is left open."""
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": uuid4().hex, "log_level": 0})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, key=b"k", headers={"n": value}, partition=partition)
    assert producer.flush(SECONDS) == 0
    if commit:
        producer.commit_transaction(SECONDS)


def test_records(server: Broker | LocalCluster, topic: str) -> None:
    """They are read as a list, with all they have, by isolation level."""
    write(server, topic, b"1", b"2")
    write(server, topic, b"3", partition=1)
    write(server, topic, b"open", commit=False)
    found = server.wait_readable(topic, 3, isolation="read_committed", timeout=SECONDS)
    assert [(record.partition, record.offset, record.value) for record in found] == [
        (0, 0, b"1"),
        (0, 1, b"2"),
        (1, 0, b"3"),
    ]
    assert (found[0].key, found[0].headers) == (b"k", (("n", b"1"),))
    assert [record.value for record in server.read(topic)] == [b"1", b"2", b"open", b"3"]
    assert [record.value for record in server.read(topic, partition=1)] == [b"3"]
    # The marker of the first transaction has an offset, too.
    assert [record.value for record in server.read(topic, partition=0, last=2)] == [b"open"]
    with pytest.raises(WaitTimedOut, match=r"4 records were not readable .* there are 3 \(2 in partition") as e:
        server.wait_readable(topic, 4, isolation="read_committed", timeout=0.1)
    assert str(e.value).endswith("1 more are in open or aborted transactions")
    with pytest.raises(ApiError, match="has no partition 2"):
        server.read(topic, partition=2)


def test_a_wait_ends_with_the_record(server: Broker | LocalCluster, topic: str) -> None:
    """It begins before the records, and even the topic, are there."""
    late = f"{topic}-late"
    writing = threading.Thread(target=lambda: (server.admin.create_topic(late, 1), write(server, late, b"1")))
    writing.start()
    assert [record.value for record in server.wait_readable(late, 1, timeout=SECONDS)] == [b"1"]
    writing.join()


def test_a_wait_sees_added_partitions(server: Broker | LocalCluster, topic: str) -> None:
    """Those of which a record comes while it waits."""
    write(server, topic, b"1")

    def add() -> None:
        server.admin.add_partitions(topic, 3)
        write(server, topic, b"2", partition=2)

    more = threading.Timer(0.3, add)
    more.start()
    found = server.wait_readable(topic, 2, timeout=SECONDS)
    assert [(record.partition, record.value) for record in found] == [(0, b"1"), (2, b"2")]
    more.join()


def test_comparison(server: Broker | LocalCluster, topic: str) -> None:
    """Records as expected are given back; others are shown with what was expected."""
    write(server, topic, b"1", b"2")
    assert len(server.assert_records(topic, [("k", "1"), {"value": "2", "offset": 1}])) == 2
    server.assert_records(topic, ["2", "1"], in_order=False)
    with pytest.raises(AssertionError) as failed:
        server.assert_records(topic, ["1", "2", "3"], timeout=0.1)
    assert str(failed.value).splitlines() == [
        f"{topic}: 2 records (+), 3 expected (-) within 0.1 s",
        "  0:0 key=b'k' value=b'1' headers=[('n', b'1')]",
        "  0:1 key=b'k' value=b'2' headers=[('n', b'2')]",
        "- value=b'3'",
    ]
    with pytest.raises(AssertionError, match=f"there is no topic '{topic}-not'"):
        server.assert_records(f"{topic}-not", ["1"], timeout=0.1)
    with pytest.raises(TypeError, match="'vaule' is no field of a record"):
        server.assert_records(topic, [{"vaule": "1"}])


def test_groups(server: Broker | LocalCluster, topic: str) -> None:
    """A group is stable, and its lag 0, when it is; before, one is told what it is."""
    group = f"g-{topic}"
    with pytest.raises(WaitTimedOut, match=rf"group {group} was not stable within 0\.1 s: there is no group"):
        server.wait_stable(group, timeout=0.1)
    with pytest.raises(WaitTimedOut, match="it has committed nothing, and has no partitions"):
        server.wait_no_lag(group, timeout=0.1)
    write(server, topic, b"1", b"2")
    options = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, "client.id": "reader"}
    consumer = Consumer({"bootstrap.servers": server.bootstrap, **options})
    consumer.subscribe([topic])
    assert len(consumer.consume(1, SECONDS)) == 1
    assert [member.client_id for member in server.wait_stable(group, members=1).members] == ["reader"]
    with pytest.raises(WaitTimedOut, match=r"stable with 2 members .* Stable with 1 member: reader \(2 part"):
        server.wait_stable(group, members=2, timeout=0.1)
    consumer.commit(asynchronous=False)
    with pytest.raises(WaitTimedOut, match=rf"was not 0 within 0\.1 s: {topic}-0: 1 behind \(committed: 1\)"):
        server.wait_no_lag(group, topic, timeout=0.1)
    assert len(consumer.consume(1, SECONDS)) == 1
    consumer.commit(asynchronous=False)
    # The marker at the end of the transaction is no record.
    assert [*server.wait_no_lag(group).values()] == [2]
    consumer.close()
    assert group in server.admin.groups()
    assert [*server.admin.committed(group).values()] == [2]
    server.admin.delete_group(group)


def test_admin(server: Broker | LocalCluster, topic: str) -> None:
    """Topics are made, changed and deleted; an error says what is wrong."""
    admin = server.admin
    admin.add_partitions(topic, 3)
    admin.set_topic(topic, retention_ms=1000)
    assert admin.topic_settings(topic)["retention.ms"] == "1000"
    assert admin.partitions(topic) == 3
    write(server, topic, b"1")
    server.wait_readable(topic, 1, isolation="read_committed", timeout=SECONDS)
    assert admin.delete_records(topic) == 2
    assert len(admin.run(lambda client: client.describe_cluster()).nodes) in (1, 2)
    with pytest.raises(ApiError, match="exists already"):
        admin.create_topic(topic)
    with pytest.raises(ApiError, match=r"clean\.policy"):
        admin.create_topic(f"{topic}-2", clean_policy="compact")
    admin.delete_topic(topic)
    assert topic not in admin.topics()


def test_the_kit_is_no_client() -> None:
    """What the kit asks is not in the history, and no fault is for it, unless that names it."""
    with Broker() as broker:
        broker.faults.fail("Fetch", error="UNKNOWN_SERVER_ERROR", times=100)
        broker.admin.create_topic("t")
        write(broker, "t", b"1")
        before = len(broker.requests)
        assert len(broker.wait_readable("t", 1, timeout=SECONDS)) == 1
        with pytest.raises(WaitTimedOut):
            broker.wait_readable("t", 2, timeout=0.5)
        assert len(broker.requests) == before


@pytest.mark.parametrize("in_process", [True, False])
def test_users_and_restarts(in_process: bool) -> None:
    """The kit logs in as the first user, and goes on after a restart; it leaves no thread."""
    threads = set(threading.enumerate())
    with Broker(users={"alice": "x"}, in_process=in_process) as broker:
        broker.admin.create_topic("kept")
        broker.restart()
        assert broker.admin.topics() == ["kept"]
        assert "topic kept" in broker.output or "ready" in broker.output
    assert set(threading.enumerate()) <= threads
    with pytest.raises(BrokerFailed, match="the broker is closed"):
        broker.read("kept")


def test_errors_that_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition whose records cannot be read for a moment is waited for; other errors come at once."""
    errors: list[ErrorCode] = []
    fetch = SimpleConsumer.fetch

    async def failing(*arguments: Any) -> Any:
        if errors:
            raise ApiError(errors.pop())
        return await fetch(*arguments)

    with Broker() as broker:
        broker.admin.create_topic("t", 1)
        write(broker, "t", b"1")
        monkeypatch.setattr(SimpleConsumer, "fetch", failing)
        errors += [ErrorCode.KAFKA_STORAGE_ERROR] * 3
        assert [record.value for record in broker.read("t")] == [b"1"]
        assert not errors
        errors.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(ApiError, match="authorization failed"):
            broker.read("t")
