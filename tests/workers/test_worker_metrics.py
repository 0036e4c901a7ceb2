"""Metrics of several workers as those of one machine."""

from __future__ import annotations

from logbus.exposition import render
from logbus.metrics import Family, Sample
from logbus.workers.worker_metrics import decode_families, encode_families, merge_families


def families(value: float, *more: Family) -> list[Family]:
    samples = [Sample("requests_total", (("api", "Fetch"),), value), None, Sample("requests_total", (), value)]
    return [Family("requests_total", "Requests.", "counter", iter(samples)), *more]


def test_they_are_sent() -> None:
    """All but pauses comes back as it was."""
    [found] = decode_families(encode_families(families(float("inf"))))
    assert found[:3] == ("requests_total", "Requests.", "counter")
    assert list(found.samples) == [
        Sample("requests_total", (("api", "Fetch"),), float("inf")),
        Sample("requests_total", (), float("inf")),
    ]


def test_they_are_merged() -> None:
    """Each family is there once, with the samples of all who have it, each with its worker."""
    only = Family("memory", "Bytes.", "gauge", iter([Sample("memory", (), 7)]))
    text = b"".join(render(merge_families({0: families(1), 1: families(2, only)}), openmetrics=False)).decode()
    assert text.splitlines() == [
        "# HELP requests_total Requests.",
        "# TYPE requests_total counter",
        'requests_total{api="Fetch",worker="0"} 1.0',
        'requests_total{worker="0"} 1.0',
        'requests_total{api="Fetch",worker="1"} 2.0',
        'requests_total{worker="1"} 2.0',
        "# HELP memory Bytes.",
        "# TYPE memory gauge",
        'memory{worker="1"} 7.0',
    ]
