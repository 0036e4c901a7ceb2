"""A disk that fills, in a real small file system: what the log, /readyz, metrics, API and console say of it."""

from __future__ import annotations

import html
import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import KafkaError, Producer
from prometheus_client.parser import text_string_to_metric_families

from logbus.testing import Broker
from logbus.testing.waiting import wait_until
from tests.interop.conftest import SMALL_DISK_MB

SECONDS = 120
ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yml"


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


def measured(broker: Broker, series: str) -> float:
    """What the metrics say of a series that is written as in a rule: its name, and labels if it has some."""
    for family in text_string_to_metric_families(asked(broker, "/metrics").decode()):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            if series == (f"{sample.name}{{{labels}}}" if labels else sample.name):
                return sample.value
    raise AssertionError(f"there is no series {series}")


def series_of(alert: str) -> str:
    """The series that makes an alert when it is above zero."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    (rule,) = (rule for group in groups for rule in group["rules"] if rule.get("alert") == alert)
    series, compared, threshold = rule["expr"].rpartition(" > ")
    assert (compared, threshold) == (" > ", "0"), rule
    return str(series)


def shown(broker: Broker) -> str:
    """The words of the console's first page."""
    return html.unescape(re.sub(r"<[^>]*>", " ", asked(broker, "/").decode()))


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

        fill(SMALL_DISK_MB * 5 // 8)
        nearly = wait_until(lambda: wrong(broker).get("log-directory-nearly-full"), "it is nearly full")
        assert (nearly["severity"], nearly["subject"]) == ("warning", str(small_disk / "data"))
        assert refused == []
        assert nearly["message"] in shown(broker)
        ballast = small_disk / "ballast"
        with pytest.raises(OSError, match="No space"):
            ballast.write_bytes(bytes(SMALL_DISK_MB << 20))
        fill(1)
        assert refused
        full = wait_until(lambda: wrong(broker).get("log-directory-full"), "it is full")
        assert full["severity"] == "critical"
        assert "log.retention" in full["advice"]
        assert measured(broker, 'logbus_conditions{condition="log-directory-full"}') == 1
        assert measured(broker, series_of("LogbusLogDirectoryFull")) == 1
        # With its subject before it: "0 of 10 bytes" is in "20 of 10 bytes".
        told = f"{full['subject']}: {full['message']}"
        page = shown(broker)
        assert told in page and full["advice"] in page
        assert json.loads(asked(broker, "/readyz"))["reasons"] == [f"log directory {small_disk / 'data'} is full"]
        assert broker.output.count(f"log directory {small_disk / 'data'} is full") == 1
        ballast.unlink()
        wait_until(lambda: "log-directory-full" not in wrong(broker), "it is over")
        assert measured(broker, 'logbus_conditions{condition="log-directory-full"}') == 0
        assert measured(broker, series_of("LogbusLogDirectoryFull")) == 0
        assert told not in shown(broker)
        assert json.loads(asked(broker, "/readyz"))["ready"]
        del refused[:]
        fill(1)
        assert refused == []
