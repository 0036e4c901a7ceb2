"""
Tests workers of Kafka Connect, which keep all they know in compacted topics of the broker, and fence each other's
producers: a source that writes each line of a file exactly once, while workers are killed.
"""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.compare.jars import KAFKA_VERSION, connect_file_jars, mirror_maker_jars
from benchmarks.compare.systems import free_port
from logbus.testing import Broker
from logbus.testing.waiting import wait_until
from tests.interop.clients import SECONDS
from tests.interop.committed_records import committed_records
from tests.interop.java_client import CACHE, SMALL_JVM
from tests.interop.test_offsets import create

pytestmark = pytest.mark.long

#: Lines that the source reads at once, and writes in one transaction.
AT_ONCE = 50
SETTINGS = {
    "group.id": "connect",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "exactly.once.source.support": "enabled",
    # What a killed worker did goes to another one at once, and not when it has had time to come back.
    "scheduled.rebalance.max.delay.ms": "0",
    "plugin.discovery": "service_load",
    **{f"{what}.storage.topic": f"connect-{what}" for what in ("offset", "config", "status")},
    **{f"{what}.storage.replication.factor": "1" for what in ("offset", "config", "status")},
}


class Worker:
    """A worker of Kafka Connect."""

    def __init__(self, broker: Broker, home: Path) -> None:
        self.address = f"http://127.0.0.1:{free_port()}"
        home.mkdir(exist_ok=True)
        jars = f"{mirror_maker_jars(KAFKA_VERSION, CACHE)}/*:{connect_file_jars(KAFKA_VERSION, CACHE)}/*"
        settings = {**SETTINGS, "bootstrap.servers": broker.bootstrap, "listeners": self.address}
        properties = home / "worker.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._said = (home / "said").open("wb")
        command = ["java", *SMALL_JVM, "-cp", jars, "org.apache.kafka.connect.cli.ConnectDistributed", str(properties)]
        self.process = subprocess.Popen(command, stdout=self._said, stderr=subprocess.STDOUT)

    def request(self, path: str, config: dict[str, str] | None = None) -> Any:
        """What it answers; None: it does not yet, or is busy with its group."""
        data = None if config is None else json.dumps(config).encode()
        request = urllib.request.Request(f"{self.address}/{path}", data, {"Content-Type": "application/json"})
        request.method = "GET" if data is None else "PUT"
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as e:
            assert e.code in (404, 409, 500, 503), e
        except OSError:
            assert self.process.poll() is None, "the worker ended"
        return None

    def answers(self, path: str, config: dict[str, str] | None = None) -> bool:
        """Whether it does."""
        return self.request(path, config) is not None

    def kill(self) -> None:
        """Without a word."""
        self.process.kill()
        self.process.wait()
        self._said.close()


@contextmanager
def workers(broker: Broker, home: Path) -> Iterator[list[Worker]]:
    """Two of them."""
    with ExitStack() as stack:
        started = [Worker(broker, home / str(number)) for number in range(2)]
        for worker in started:
            stack.callback(worker.kill)
        for worker in started:
            wait_until(partial(worker.answers, "connectors"), "an answer of a worker", SECONDS)
        yield started


def test_exactly_once(tmp_path: Path) -> None:
    """Each line is in the topic once, whichever worker is killed while it writes."""
    source = tmp_path / "lines"
    with Broker({"group.initial.rebalance.delay.ms": "0"}) as broker, ExitStack() as stack:
        create(broker, "lines")
        alive = stack.enter_context(workers(broker, tmp_path))
        config = {
            "connector.class": "FileStreamSource",
            "file": str(source),
            "topic": "lines",
            "batch.size": str(AT_ONCE),
            "tasks.max": "1",
        }
        source.write_text("")
        wait_until(partial(alive[0].answers, "connectors/lines/config", config), "the connector", SECONDS)
        written = 0
        for turn in range(3):
            with source.open("a") as file:
                file.writelines(f"line {number}\n" for number in range(written, written + 20 * AT_ONCE))
            written += 20 * AT_ONCE
            committed_records(broker, "lines", 1, written - 15 * AT_ONCE)
            if turn < 2:
                number = owner(alive)
                alive[number].kill()
                alive[number] = Worker(broker, tmp_path / str(number))
                stack.callback(alive[number].kill)
        # What it read last it commits when there is more.
        records = committed_records(broker, "lines", 1, written - AT_ONCE)
        assert Counter(line for _, line in records) == Counter(f"line {number}" for number in range(len(records)))


def owner(alive: list[Worker]) -> int:
    """Which of the workers has the task."""
    found: list[str] = []

    def known() -> bool:
        status = alive[0].request("connectors/lines/status") or alive[1].request("connectors/lines/status")
        tasks = status["tasks"] if status else []
        found[:] = [f"http://{task['worker_id']}" for task in tasks if task["state"] == "RUNNING"]
        return bool(found) and found[0] in [worker.address for worker in alive]

    wait_until(known, "a running task", SECONDS)
    return [worker.address for worker in alive].index(found[0])
