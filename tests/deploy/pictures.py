"""
Makes the pictures of the Grafana dashboard in the documentation, of what a real Prometheus answers to its queries::

    python -m tests.deploy.pictures docs/howto/dashboard
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from logbus.testing import Cluster
from tests.deploy.dashboard import RECORD, Panel, Query, outline, panels
from tests.deploy.panel_drawing import Series, draw
from tests.deploy.prometheus_server import PATIENCE, Server, prometheus

WARM_UP = 300
"""Seconds before what is shown: rates of the dashboard are of five minutes."""
SECONDS = 300
AWAY = (0.35, 0.5)
"""When a broker is down, as shares of that."""
STOPPED = (0.2, 0.6)
"""When a group reads nothing."""
POINTS = 120
ROWS = 5
"""Rows of the dashboard in a picture."""
TOPICS = {"clicks": 60, "orders": 20, "payments": 5}
"""Records that are written each time."""
# What tests put there is temporary, and has a long name.
DIRECTORIES = {"source_labels": ["directory"], "regex": ".+", "target_label": "directory", "replacement": "/logbus"}


def _prepare(cluster: Cluster) -> None:
    """Make the topics, and have what writes clicks wait for its quota."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topics = [NewTopic(topic, 3, 3, config={"flush.messages": "10"}) for topic in TOPICS]
    for made in admin.create_topics([*topics, NewTopic("audit", 3, 3, config={"min.insync.replicas": "3"})]).values():
        made.result(PATIENCE)
    body = {"entity": {"client_id": "clicks"}, "quotas": {"producer_byte_rate": 6_000}}
    url = f"{cluster.brokers[0].admin_url}/api/v1/quotas"
    with urlopen(Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="PATCH")):
        pass


def _within(span: tuple[float, float], share: float) -> bool:
    return span[0] <= share < span[1]


def _be_busy(cluster: Cluster) -> None:
    """Write and read, more and less, also in transactions; a group stops and comes back, and so does a broker."""
    common = {"bootstrap.servers": cluster.bootstrap}
    producers = {topic: Producer({**common, "client.id": topic}) for topic in TOPICS if topic != "payments"}
    producers["payments"] = Producer({**common, "transactional.id": "payments"})
    producers["payments"].init_transactions(PATIENCE)
    consumers = {}
    for group in ("billing", "reports"):
        consumers[group] = Consumer({**common, "group.id": group, "auto.offset.reset": "earliest"})
        consumers[group].subscribe(list(TOPICS))
    began = time.monotonic() + WARM_UP
    last = cluster.brokers[-1]
    rounds = 0
    while (share := (time.monotonic() - began) / SECONDS) < 1:
        if rounds % 20 == 0:
            producers["payments"].begin_transaction()
        for topic, count in TOPICS.items():
            for number in range(int(count * (1.2 + math.sin(10 * share)))):
                producers[topic].produce(topic, f"{topic} {number}", f"visitor-{number % 23}")
            producers[topic].poll(0)
        for group, consumer in consumers.items():
            if group != "reports" or not _within(STOPPED, share):
                consumer.consume(1000, timeout=0.1)
        if _within(AWAY, share) and last.running:
            last.kill()
        elif not _within(AWAY, share) and not last.running:
            last.launch()
        rounds += 1
        if rounds % 20 == 0:
            producers["payments"].commit_transaction(PATIENCE)
    last.wait_ready()
    for consumer in consumers.values():
        consumer.close()


def _series(server: Server, query: Query, start: float, end: float) -> list[Series]:
    """What a query had from the start to the end."""
    step = (end - start) / POINTS
    found = []
    for each in server.history(query.of_all, start, end, step):
        points: list[tuple[float, float] | None] = []
        before = start
        for at, text in each["values"]:
            if not math.isfinite(float(text)):
                continue
            if at - before > 1.5 * step:
                points.append(None)
            points.append(((at - start) / (end - start), float(text)))
            before = at
        found.append(Series(_label(query.legend, each["metric"]), points))
    return found


def _label(legend: str, labels: dict[str, Any]) -> str:
    return re.sub(r"{{(\w+)}}", lambda name: str(labels.get(name[1], "")), legend)


def _looked_at(directory: Path) -> tuple[list[tuple[Panel, list[Series]]], Sequence[str]]:
    """The panels with what they show of a cluster that was busy, and minutes of that."""
    with Cluster() as cluster:
        _prepare(cluster)
        urls = {f"broker-{broker.id}": broker.admin_url for broker in cluster.brokers}
        with prometheus(directory, urls, "2s", metric_relabel_configs=[DIRECTORIES]) as server:
            start = time.time() + WARM_UP
            _be_busy(cluster)
            end = time.time()
            shown = [
                (panel, [series for query in panel.queries for series in _series(server, query, start, end)])
                for panel in panels()
            ]
    minutes = round((end - start) / 60)
    return shown, [f"{minute} min" for minute in range(0, minutes + 1, max(1, minutes // 4))]


def main(directory: Path) -> None:
    """Write an SVG file for some rows of the dashboard each, and what they consist of."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        shown, times = _looked_at(Path(scratch))
    height = shown[0][0].place[3]
    for number, drawn in groupby(shown, lambda panel: panel[0].place[1] // (ROWS * height)):
        (directory / f"dashboard{number + 1}.svg").write_text(draw(list(drawn), times))
    (directory / RECORD).write_text(outline())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
