"""Tests the HTTP API on three brokers: each of them writes and reads the records of partitions that others lead."""

from __future__ import annotations

import json
import urllib.request
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from logbus.testing import LocalCluster
from logbus.testing.local_cluster import LocalBroker

SECONDS = 120
PARTITIONS = 3


def ask(broker: LocalBroker, method: str, path: str, body: Any = None) -> Any:
    """What a broker answers, which must be a success."""
    request = urllib.request.Request(f"{broker.admin_url}/api/v1/{path}", method=method)
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        return json.loads(answer.read() or b"null")


def search(broker: LocalBroker, topic: str, query: str) -> list[Any]:
    """All records that a search finds, each part of which a partition's leader serves."""
    found, cursor = [], ""
    while True:
        part = ask(broker, "GET", f"topics/{topic}/records?{query}{cursor}")
        found += part["items"]
        if part["done"]:
            return found
        cursor = f"&cursor={part['next']}"


def tailed(broker: LocalBroker, topic: str, count: int) -> list[Any]:
    """The first records that a stream has."""
    url = f"{broker.admin_url}/api/v1/topics/{topic}/records/tail?newest=100"
    found: list[Any] = []
    with urllib.request.urlopen(url, timeout=SECONDS) as stream:
        while len(found) < count:
            line = stream.readline()
            if line.startswith(b"data: "):
                found += json.loads(line[6:])["items"]
    return found


def test_any_broker(cluster: LocalCluster, topic: str) -> None:
    """Whichever broker is asked, records go to the leaders of their partitions, and come from there."""
    new = {"name": f"{topic}-http", "partitions": PARTITIONS, "replication_factor": 1}
    name = ask(cluster.brokers[0], "POST", "topics", new)["name"]

    def leaders() -> set[int] | None:
        led = [ask(cluster.brokers[0], "GET", f"topics/{name}/partitions/{n}")["leader"] for n in range(PARTITIONS)]
        return None if None in led else set(led)

    assert len(cluster.wait_until(leaders, "leaders", SECONDS)) == PARTITIONS
    for broker in cluster.brokers:
        records = [{"value": {"text": f"from {broker.admin_url}"}, "partition": n} for n in range(PARTITIONS)]
        written = ask(broker, "POST", f"topics/{name}/records", {"records": records})["items"]
        assert [item["error"] for item in written] == [None] * PARTITIONS
    expected = sorted(f"from {broker.admin_url}" for broker in cluster.brokers for _ in range(PARTITIONS))
    for broker in cluster.brokers:
        assert sorted(item["value"]["text"] for item in search(broker, name, "value=from")) == expected
        assert sorted(item["value"]["text"] for item in tailed(broker, name, len(expected))) == expected
        bounds = ask(broker, "GET", f"topics/{name}/partitions/1/offsets")
        assert (bounds["earliest"], bounds["latest"]) == (0, len(cluster.brokers))


def test_moved_by_the_console(cluster: LocalCluster, topic: str) -> None:
    """A form moves a partition to another broker, which any broker can be told, and elects it."""
    first, other = cluster.brokers[0], cluster.brokers[1]
    name = ask(first, "POST", "topics", {"name": f"{topic}-moved", "partitions": 1, "replication_factor": 1})["name"]

    def partition() -> Any:
        return ask(first, "GET", f"topics/{name}/partitions/0")

    (before,) = cluster.wait_until(lambda: partition()["isr"], "the partition", SECONDS)
    ids = [each["id"] for each in ask(first, "GET", "brokers")["items"]]
    target = next(each for each in ids if each != before)

    def post(action: str, **fields: str) -> str:
        url = f"{other.admin_url}/console/topics/{name}/partitions/0/{action}"
        data = urlencode({**fields, "confirmed": "yes"}).encode()
        with urlopen(Request(url, data, {"Origin": other.admin_url}), timeout=SECONDS) as answer:
            return str(answer.read().decode())

    assert "It is being moved." in post("move", replicas=f"{target}, {before}")
    cluster.wait_until(lambda: sorted(partition()["isr"]) == sorted([target, before]), "the copy", SECONDS)
    assert "The election was held." in post("elect")
    cluster.wait_until(lambda: partition()["leader"] == target, "the leader", SECONDS)


def test_events(cluster: LocalCluster, topic: str) -> None:
    """Who follows one broker is told of what others do, until the topic's end."""
    first, other = cluster.brokers[0], cluster.brokers[2]
    told = []
    with urllib.request.urlopen(f"{first.admin_url}/api/v1/events", timeout=SECONDS) as stream:
        for line in stream:
            if line == b"event: ready\n":
                new = {"name": f"{topic}-events", "partitions": PARTITIONS, "replication_factor": 2}
                name = ask(other, "POST", "topics", new)["name"]
                ask(other, "PATCH", f"configs/topics/{name}", {"retention.ms": 50_000})
                ask(other, "DELETE", f"topics/{name}?confirm={name}")
            elif line.startswith(b"event: topic"):
                told.append(line.split()[1].decode())
                if told[-1] == "topic-deleted":
                    break
    assert told == ["topic-created", "topic-configs-changed", "topic-deleted"]
