"""Snapshots of a broker's data: tests that start from them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from logbus.testing import Broker, BrokerFailed

SECONDS = 60
QUICK = {"reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 10, "retry.backoff.ms": 1, "retry.backoff.max.ms": 10}


def write(broker: Broker, topic: str, *values: bytes) -> None:
    """Write records to partition 0, in a transaction."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t", "linger.ms": 0, **QUICK})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.commit_transaction(SECONDS)


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.read(topic)]


def test_restore() -> None:
    """What happened after the snapshot did not: records, topics, offsets of groups."""
    with Broker() as broker:
        address = {"bootstrap.servers": broker.bootstrap, **QUICK}
        admin = AdminClient(address)
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(SECONDS)
        write(broker, "orders", b"1", b"2")
        committer = Consumer({**address, "group.id": "g"})
        committer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        at = broker.bootstrap
        with broker.snapshot() as snapshot:
            write(broker, "orders", b"3")
            committer.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
            AdminClient(address).list_topics("later", timeout=SECONDS)
            broker.restore(snapshot)
            assert broker.bootstrap == at
            assert values(broker, "orders") == [b"1", b"2"]
            assert "later" not in AdminClient(address).list_topics(timeout=SECONDS).topics
            [found] = Consumer({**address, "group.id": "g"}).committed([TopicPartition("orders", 0)], SECONDS)
            assert found.offset == 1
            with Broker(snapshot=snapshot) as one, Broker(snapshot=snapshot) as other:
                write(one, "orders", b"3")
                assert values(one, "orders") == [b"1", b"2", b"3"]
                assert values(other, "orders") == [b"1", b"2"]
            directory = snapshot.directory
        assert not directory.exists()
        with pytest.raises(BrokerFailed, match="the snapshot is closed; take another one"):
            broker.restore(snapshot)
        assert values(broker, "orders") == [b"1", b"2"]


def test_closed_segments_are_linked(tmp_path: Path) -> None:
    """However large a log is: only its last segment is copied, and nobody changes the others."""
    with Broker({"log.segment.bytes": 1024, "num.partitions": 1}, data_dir=tmp_path) as broker:
        for number in range(5):
            write(broker, "orders", b"%d" % number * 600)
        with broker.snapshot() as snapshot:
            logs = sorted((snapshot.directory / "orders-0").glob("*.log"))
            assert len(logs) > 2
            assert [os.stat(path).st_nlink for path in logs] == [2] * (len(logs) - 1) + [1]
            before = [path.read_bytes() for path in logs]
            write(broker, "orders", b"more")
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            admin.delete_topics(["orders"])["orders"].result(SECONDS)
            assert [path.read_bytes() for path in logs] == before
            broker.restore(snapshot)
            assert len(values(broker, "orders")) == 5


def test_wrong_snapshot(tmp_path: Path) -> None:
    """One line says what would be right."""
    (tmp_path / "meta.properties").write_text("")
    with Broker() as broker:
        with pytest.raises(TypeError, match=r"restore: 'x' is none: expected what Broker.snapshot\(\) gives"):
            broker.restore("x")  # type: ignore[arg-type]
        with broker.snapshot() as snapshot:
            with pytest.raises(BrokerFailed, match=f"there are data in {tmp_path} already"):
                Broker(data_dir=tmp_path, snapshot=snapshot)
            with pytest.raises(BrokerFailed, match=r"snapshot: the data are in log\.dirs"):
                Broker({"log.dirs": str(tmp_path)}, snapshot=snapshot)
