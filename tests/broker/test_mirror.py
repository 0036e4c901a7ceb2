"""A mirror that a broker runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from logbus.testing import Broker
from logbus.testing.broker_process import BrokerFailed
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
        ("mirror.source.name", "a.b", "source is 'a.b'; a cluster's alias has letters"),
        ("mirror.source.name", "target", "source and target are both 'target'"),
        ("mirror.topics", "[", "not a regular expression"),
        ("mirror.source.config", "/nowhere", "/nowhere: "),
        ("mirror.source.bootstrap.servers", "host:port", "host:port"),
    ],
)
def test_wrong_keys(key: str, value: str, reason: str) -> None:
    """A wrong key is named when the broker starts."""
    with pytest.raises(BrokerFailed, match=reason.replace("[", "\\[")):
        Broker({"mirror.source.bootstrap.servers": "paris:9092", key: value}).__enter__()
