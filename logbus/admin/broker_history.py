"""
View of the last hour of a broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from attrs import frozen

from logbus.admin.authorization import Right
from logbus.admin.cluster import BROKER_ID, require_broker
from logbus.admin.json_schema import JsonSchema, array, integer, nullable, number, object_schema, string
from logbus.admin.metric_history import (
    FETCH_TIME,
    FREE,
    INTERVAL_SECONDS,
    LATENESS,
    PRODUCE_TIME,
    PRODUCED,
    RECEIVED,
    SAMPLES,
    SENT,
    SIZE,
    MetricHistory,
)
from logbus.admin.relay import live
from logbus.admin.routing import ViewRequest, route
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.security.acl.acls import AclOperation

RATES = {"received_bytes": RECEIVED, "sent_bytes": SENT, "produced_records": PRODUCED}
TIMES = {"produce_seconds": PRODUCE_TIME, "fetch_seconds": FETCH_TIME, "late_seconds": LATENESS}
QUANTILE = 0.99


def _points(description: str) -> JsonSchema:
    return array(description, nullable(number("The value of an interval; null: unknown.")), maxItems=SAMPLES - 1)


HISTORY = object_schema(
    "The last hour of a broker, the newest interval last; empty if the broker has no console, for which it is kept.",
    broker=integer("Its id."),
    interval_seconds=integer("Length of an interval."),
    received_bytes=_points("Bytes received from clients, per second."),
    sent_bytes=_points("Bytes sent to clients, per second."),
    produced_records=_points("Records produced, per second."),
    produce_seconds=_points("Time of Produce requests, 99th percentile."),
    fetch_seconds=_points("Time of Fetch requests without waiting for records, 99th percentile."),
    late_seconds=_points("How late the reactor's timers were, 99th percentile."),
    log_directories=array(
        "The space of its log directories at present, by path.",
        object_schema(
            "A log directory.",
            path=string("Its path."),
            free_bytes=number("Bytes that are free."),
            total_bytes=number("Bytes of its volume."),
        ),
    ),
)


@frozen
class HistoryViews:
    """Shows the last hour of a broker, which serves that itself."""

    metadata: ClusterMetadata
    broker_id: int
    history: MetricHistory

    @route(
        "GET",
        "/api/v1/brokers/{broker}/history",
        "The last hour of a broker",
        answer=HISTORY,
        parameters={"broker": BROKER_ID},
        right=Right(AclOperation.DESCRIBE),
        served_by=lambda self, call: live(self.metadata, call.path["broker"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def last_hour(self, call: ViewRequest) -> dict[str, Any]:
        require_broker(call.path["broker"], self.broker_id, self.metadata)
        history = self.history
        free, whole = history.latest.get(FREE, {}), history.latest.get(SIZE, {})
        return {
            "broker": self.broker_id,
            "interval_seconds": INTERVAL_SECONDS,
            **{name: _short(history.rates(metric)) for name, metric in RATES.items()},
            **{name: _short(history.quantiles(metric, QUANTILE)) for name, metric in TIMES.items()},
            "log_directories": [
                {"path": path, "free_bytes": free[path], "total_bytes": whole[path]}
                for path in sorted(free)
                if whole.get(path)
            ],
        }


def _short(points: Iterable[float | None]) -> list[float | None]:
    """Return points with as many digits as a plot can show."""
    return [None if each is None else float(f"{each:.4g}") for each in points]
