"""A disk that fills, in a real small file system: what the log, /readyz, the metrics and the API say."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from prometheus_client.parser import text_string_to_metric_families

from logbus.testing import Broker

SECONDS = 120
MEGABYTES = 24


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, with little space."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a file system needs root")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return found


def asked(broker: Broker, path: str) -> bytes:
    """What a path answers, whatever its status."""
    try:
        with urllib.request.urlopen(broker.admin_url + path, timeout=SECONDS) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as e:
        return e.read()


def wrong(broker: Broker) -> dict[str, dict[str, Any]]:
    """What the API says is wrong, by kind."""
    return {each["condition"]: each for each in json.loads(asked(broker, "/api/v1/conditions"))["items"]}


def counted(broker: Broker, condition: str) -> float:
    """What the metric says of a kind."""
    for family in text_string_to_metric_families(asked(broker, "/metrics").decode()):
        for sample in family.samples:
            if family.name == "logbus_conditions" and sample.labels["condition"] == condition:
                return sample.value
    raise AssertionError(f"no series of {condition}")


def test_full_disk(small_disk: Path) -> None:
    """It is told everywhere while it is full, with what to do, and that it is over when there is space."""
    config = {"log.dir.space.check.interval.ms": 1000, "log.dir.usage.warn.ratio": 0.5}
    with Broker(config, data_dir=small_disk / "data", in_process=False) as broker:
        assert wrong(broker) == {}
        refused: list[KafkaError] = []
        producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 5000, "linger.ms": 0})

        def fill(megabytes: int) -> None:
            for _ in range(megabytes * 2):
                producer.produce("t", bytes(500_000), on_delivery=lambda e, _: refused.append(e) if e else None)
            producer.flush(SECONDS)

        fill(MEGABYTES * 5 // 8)
        nearly = wait_for(lambda: wrong(broker).get("log-directory-nearly-full"), "it is nearly full")
        assert (nearly["severity"], nearly["subject"]) == ("warning", str(small_disk / "data"))
        assert refused == []
        ballast = small_disk / "ballast"
        with pytest.raises(OSError, match="No space"):
            ballast.write_bytes(bytes(MEGABYTES << 20))
        fill(1)
        assert refused
        full = wait_for(lambda: wrong(broker).get("log-directory-full"), "it is full")
        assert full["severity"] == "critical"
        assert "log.retention" in full["advice"]
        assert counted(broker, "log-directory-full") == 1
        assert json.loads(asked(broker, "/readyz"))["reasons"] == [f"log directory {small_disk / 'data'} is full"]
        assert broker.output.count(f"log directory {small_disk / 'data'} is full") == 1
        ballast.unlink()
        wait_for(lambda: "log-directory-full" not in wrong(broker), "it is over")
        assert counted(broker, "log-directory-full") == 0
        assert json.loads(asked(broker, "/readyz"))["ready"]
        del refused[:]
        fill(1)
        assert refused == []
