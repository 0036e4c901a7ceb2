"""Tests what the command, the client and HTTP show of a real client's group."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, Producer

from logbus.testing import Broker

COMMAND = [sys.executable, "-c", "from logbus.cli import main; main()", "groups"]
SECONDS = 120


@contextmanager
def member(broker: Broker, group_id: str, topic: str, protocol: str) -> Iterator[Consumer]:
    """One consumer that has got its partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group_id,
            "client.id": "reader",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + SECONDS
        read = 0
        while not read:
            assert time.monotonic() < deadline
            message = consumer.poll(0.1)
            read += message is not None and message.error() is None
        consumer.commit(message, asynchronous=False)
        yield consumer
    finally:
        consumer.close()


def groups(broker: Broker, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``logbus groups``."""
    environment = {**os.environ, "LOGBUS_BOOTSTRAP": broker.bootstrap}
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, env=environment, check=False)


def over_http(broker: Broker, group_id: str) -> Any:
    """Return a group, once its coordinator knows its lag: it may have to ask the leader first."""
    url = f"{broker.admin_url}/api/v1/groups/{quote(group_id, safe='')}"
    deadline = time.monotonic() + SECONDS
    while True:
        with urllib.request.urlopen(url) as answer:
            told = json.load(answer)
        if told["lag"] is not None or time.monotonic() > deadline:
            return told
        time.sleep(0.1)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_in_use(broker: Broker, topic: str, protocol: str) -> None:
    """Its member is shown with what it reads and has still to read; nobody moves its offsets meanwhile."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for _ in range(10):
        producer.produce(topic, b"x")
    producer.flush()
    group_id = f"tools/{topic} {protocol}"
    with member(broker, group_id, topic, protocol):
        (told,) = json.loads(groups(broker, "describe", group_id, "--json").stdout)
        assert (told["type"], told["state"], told["lag"]) == (protocol, "Stable", 9)
        (reader,) = told["members"]
        assert (reader["client"], reader["host"], reader["assignment"]) == ("reader", "127.0.0.1", {topic: [0]})
        assert (reader["epoch"] is None) == (protocol == "classic")
        (offset,) = told["offsets"]
        assert (offset["offset"], offset["end_offset"], offset["member"]) == (1, 10, reader["member"])

        group = over_http(broker, group_id)
        assert (group["type"], group["state"], group["lag"]) == (protocol, "Stable", 9)
        assert group["members"][0]["assignment"] == {topic: [0]}
        assert group["offsets"][0]["end_offset"] == 10

        for arguments, why in (
            (["reset-offsets", group_id, "--topic", topic, "--to-latest", "--execute"], "is Stable with 1 member"),
            (["delete", group_id], "has members"),
            (["delete-offsets", group_id, "--topic", topic], "is reading topic"),
        ):
            refused = groups(broker, *arguments)
            assert (refused.returncode, refused.stdout) == (1, "")
            assert why in refused.stderr
    moved = groups(broker, "reset-offsets", group_id, "--topic", topic, "--to-offset", "7", "--execute")
    assert (moved.returncode, moved.stderr) == (0, "")
    with member(broker, group_id, topic, protocol):
        (told,) = json.loads(groups(broker, "describe", group_id, "--json").stdout)
        assert told["lag"] == 2
