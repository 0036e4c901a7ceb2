"""A mirror that a broker runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from logbus.testing import Broker
from logbus.testing.errors import BrokerFailed
from logbus.testing.waiting import wait_until

SECONDS = 60


def test_topics_of_another_cluster(tmp_path: Path) -> None:
    """A broker that is told of another cluster has the topics of that one."""
    with Broker() as source:
        admin = AdminClient({"bootstrap.servers": source.bootstrap})
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(SECONDS)
        producer = confluent_kafka.Producer({"bootstrap.servers": source.bootstrap})
        for number in range(10):
            producer.produce("orders", b"%d" % number)
        assert producer.flush(SECONDS) == 0
        keys = {"bootstrap.servers": source.bootstrap, "name": "paris"}
        config = {f"mirror.source.{name}": value for name, value in keys.items()}
        with Broker({**config, "mirror.target.name": "rome", "mirror.topics": "orders"}) as target:
            consumer = confluent_kafka.Consumer(
                {
                    "bootstrap.servers": target.bootstrap,
                    "group.id": "g",
                    "auto.offset.reset": "earliest",
                    "topic.metadata.refresh.interval.ms": 200,
                }
            )
            consumer.subscribe(["^paris\\.orders$"])
            found: list[bytes | None] = []
            while len(found) < 10:
                message = consumer.poll(SECONDS)
                assert message is not None, found
                if message.error() is None:
                    found.append(message.value())
            consumer.close()
            assert found == [b"%d" % number for number in range(10)]
            told = _mirror(target)
            assert (told["id"], told["source_servers"], told["target"]) == ("paris-to-rome", [source.bootstrap], "rome")
            assert (told["state"], told["records"], told["lag"], told["problems"]) == ("running", 10, 0, [])
            with urlopen(f"{target.admin_url}/api/v1/mirrors/paris-to-rome/partitions") as answer:
                (row,) = json.load(answer)["items"]
            assert (row["id"], row["copy"], row["offset"], row["end_offset"]) == ("orders-0", "paris.orders", 10, 10)


def _mirror(target: Broker) -> Any:
    """What the broker tells of its mirror, once it has counted ten records."""

    def told() -> Any:
        with urlopen(f"{target.admin_url}/api/v1/mirrors") as answer:
            (row,) = json.load(answer)["items"]
        return row if row["records"] >= 10 else None

    return wait_until(told, "ten records of the mirror", SECONDS)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("mirror.source.name", "a.b", "mirror.source.name is 'a.b'; a cluster's alias has letters"),
        ("mirror.source.name", "target", "mirror.source.name and mirror.target.name are both 'target'"),
        ("mirror.topics", "[", "mirror.topics: '[' is not a regular expression"),
        ("mirror.groups.exclude", "*", "mirror.groups.exclude: '*' is not a regular expression"),
        ("mirror.source.config", "/nowhere", "mirror.source.config: /nowhere: "),
        ("mirror.source.bootstrap.servers", "host:port", "mirror.source.bootstrap.servers: 'host:port' is not an add"),
        ("mirror.interval.seconds", "0", "mirror.interval.seconds: '0' is not valid; accepted: a number from 0.01"),
        ("mirror.on.recreated", "skip", "mirror.on.recreated: 'skip' is not valid; accepted: one of stop, continue"),
        ("mirror.flow.bulk.topics", "[", "mirror.flow.bulk.topics: '[' is not a regular expression"),
        ("mirror.flow.bulk.topic", "a", "did you mean mirror.flow.bulk.topics"),
        ("mirror.flow.all of them.topics", "a", "the NAME in mirror.flow.NAME is 'all of them'"),
    ],
)
def test_wrong_keys(key: str, value: str, reason: str) -> None:
    """A wrong key is named when the broker starts."""
    with pytest.raises(BrokerFailed, match=re.escape(reason)):
        Broker({"mirror.source.bootstrap.servers": "paris:9092", key: value}).__enter__()


def test_several_mirrors() -> None:
    """Mirrors that have names run side by side, also between the same clusters; a topic is copied by one of them."""
    with Broker() as source:
        admin = AdminClient({"bootstrap.servers": source.bootstrap})
        for created in admin.create_topics([NewTopic(each, 1) for each in ("orders", "bills", "logs")]).values():
            created.result(SECONDS)
        producer = confluent_kafka.Producer({"bootstrap.servers": source.bootstrap})
        for number in range(10):
            for topic in ("orders", "bills", "logs"):
                producer.produce(topic, b"%d" % number)
        assert producer.flush(SECONDS) == 0
        keys = {
            "source.bootstrap.servers": source.bootstrap,
            "source.name": "paris",
            "heartbeat.interval.seconds": "0",
            "flow.business.topics": "orders,bills",
            "flow.rest.topics.exclude": "orders",
            "flow.rest.rate": "1000000",
        }
        with Broker({f"mirror.{name}": value for name, value in keys.items()}) as target:

            def copied() -> Any:
                with urlopen(f"{target.admin_url}/api/v1/mirrors") as answer:
                    rows = {row["id"]: row for row in json.load(answer)["items"]}
                return rows if sum(row["records"] for row in rows.values()) >= 30 else None

            rows = wait_until(copied, "thirty records of both mirrors", SECONDS)
            assert set(rows) == {"business", "rest"}
            assert all(row["source"] == "paris" for row in rows.values())
            # Which of them has the topic that both are to copy is the one that came first.
            assert {rows["business"]["records"], rows["rest"]["records"]} == {10, 20}
            (problem,) = [each for row in rows.values() for each in row["problems"]]
            assert "topic bills: not copied, since the mirror" in str(problem)
            with urlopen(f"{target.admin_url}/metrics") as answer:
                text = answer.read().decode()
            assert text.count("# TYPE logbus_mirror_records_total counter") == 1
            assert 'logbus_mirror_records_total{flow="business"}' in text
            assert 'logbus_mirror_records_total{flow="rest"}' in text


def test_other_cluster_of_the_same_name() -> None:
    """Two clusters that are called the same would have their topics mixed up."""
    config = {
        "mirror.flow.a.source.bootstrap.servers": "paris:9092",
        "mirror.flow.b.source.bootstrap.servers": "rome:9092",
    }
    reason = "mirror.flow.b.source.name: 'source' is also what mirror.flow.a calls paris:9092"
    with pytest.raises(BrokerFailed, match=re.escape(reason)):
        Broker(config).__enter__()


def test_no_source() -> None:
    """A mirror that is named, and reads no cluster."""
    reason = "mirror.flow.a.source.bootstrap.servers is not set: give the brokers"
    with pytest.raises(BrokerFailed, match=re.escape(reason)):
        Broker({"mirror.flow.a.topics": "orders"}).__enter__()
