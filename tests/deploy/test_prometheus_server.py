"""A real Prometheus scrapes a real broker: rules and panels find what they ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from logbus.testing import Broker
from tests.deploy.dashboard import panels
from tests.deploy.prometheus_server import PATIENCE, PROMETHEUS, Server, prometheus, wait_for
from tests.deploy.test_prometheus import ALERTS, RECORDED

pytestmark = pytest.mark.skipif(PROMETHEUS is None, reason="needs Prometheus, which tests/run fetches")

SCRAPES = 4


def be_busy(bootstrap: str) -> None:
    """Something of all that metrics tell: records, a group that is behind, a transaction, an error."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "loader"})
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    for number in range(100):
        producer.produce("orders", f"order {number}")
    producer.commit_transaction(PATIENCE)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    wait_for(lambda: consumer.consume(10, timeout=1.0), "nothing is consumed")
    consumer.commit(offsets=[TopicPartition("orders", 0, 10)], asynchronous=False)
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        consumer.commit(offsets=[TopicPartition("orders", 99, 10)], asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Prometheus that has scraped a broker some times, before and after it was busy."""
    with (
        Broker({"num.partitions": 1, "group.flood.count": 1}) as broker,
        prometheus(tmp_path_factory.mktemp("prometheus"), {"broker-0": broker.admin_url}) as server,
    ):
        be_busy(broker.bootstrap)
        for metric in ("up", *RECORDED):
            counted = f'count_over_time({metric}{{job="logbus"}}[1m]) > {SCRAPES}'
            wait_for(lambda counted=counted: server.series(counted), f"{counted} is never true")  # type: ignore[misc]
        yield server


NEEDS_FOLLOWERS = "logbus_replica_max_lag"
SHOWN_WHEN_WRONG = {"LogbusServerErrors", "LogbusSeriesFolded"}
"""Alerts on series that a broker has only with what they are for."""


def test_panels_have_series(server: Server) -> None:
    """Each query of the dashboard returns something; those of what is wrong do without their condition."""
    for query in (query for panel in panels() for query in panel.queries):
        expression = re.sub(r" > 0\b", " >= 0", query.of_all)
        if NEEDS_FOLLOWERS in expression:
            assert not server.series(expression), expression
        else:
            # Some are of what a broker looks at once in a while, such as its conditions.
            wait_for(lambda expression=expression: server.series(expression), f"{expression} has no series")  # type: ignore[misc]


@pytest.mark.parametrize("alert", ALERTS)
def test_alerts_have_series(alert: str, server: Server) -> None:
    """Each alert compares something; both sides of an "and" have the same labels."""
    expression = re.sub(r"(==|!=|<|>) (?=[\d.])", r"\1 bool ", ALERTS[alert]["expr"])
    assert "bool" in expression
    assert bool(server.series(expression)) != (alert in SHOWN_WHEN_WRONG), expression


def test_rules_are_evaluated(server: Server) -> None:
    """None fails on what a broker shows, as by labels that match several series."""
    rules = [rule for group in server.ask("rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in rules} == ALERTS.keys() | RECORDED.keys()
    assert {rule["name"]: rule["lastError"] for rule in rules if rule["health"] != "ok"} == {}


def test_an_alert_fires(server: Server) -> None:
    """What the broker finds is what somebody is woken by: here one group is a flood."""
    firing = 'ALERTS{alertname="LogbusGroupFlood",alertstate="firing",severity="warning"}'
    assert wait_for(lambda: server.series(firing), "no alert fires")
