"""Metrics of several workers as those of one machine."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from logbus.exposition import render
from logbus.metrics import Family, Registry, Sample
from logbus.workers.worker_metrics import CollectedFamilies, encode_in_parts, merge_families

Content = list[tuple[str, list[Sample | None]]]

NAMES = ("a_total", "b_total", "c_total")
LABELS = st.lists(st.tuples(st.sampled_from(["topic", "le"]), st.text(max_size=5)), max_size=2).map(tuple)
CONTENT = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.lists(st.none() | st.builds(Sample, st.just("a"), LABELS, st.floats(allow_nan=False)), max_size=12),
    ),
    unique_by=lambda family: family[0],
)


def made(content: Content) -> list[Family]:
    return [Family(name, f"Help of {name}.", "counter", iter(samples)) for name, samples in content]


def families(value: float, *more: Family) -> list[Family]:
    samples = [Sample("requests_total", (("api", "Fetch"),), value), None, Sample("requests_total", (), value)]
    return [Family("requests_total", "Requests.", "counter", iter(samples)), *more]


def sent(parts: Sequence[str]) -> list[Family]:
    """What comes of parts."""
    collected = CollectedFamilies()
    for part in parts:
        if part:
            collected.add(part)
    return list(collected.families())


@given(CONTENT, st.integers(1, 20))
def test_they_are_sent(content: Content, most: int) -> None:
    """All but pauses comes back as it was, in the same order, whatever the size of a part; and no part is larger."""
    parts = list(encode_in_parts(made(content), most))
    assert [(each[:3], list(each.samples)) for each in sent(parts)] == [
        (each[:3], [sample for sample in each.samples if sample is not None]) for each in made(content)
    ]
    for part in parts:
        lines = part.split("\n") if part else []
        assert sum(len(json.loads(line.partition(" ")[2])[2]) for line in lines) <= most


def test_pauses_count() -> None:
    """What makes no samples but takes as long is spread over as many turns."""
    parts = encode_in_parts([Family("few", "Few.", "gauge", iter([None] * 25))], 10)
    assert list(parts) == ["", "", 'few ["Few.", "gauge", []]']


def test_infinity() -> None:
    """Numbers that JSON does not have."""
    [found] = sent(list(encode_in_parts(families(math.inf))))
    assert [sample.value for sample in found.samples if sample is not None] == [math.inf, math.inf]


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


def test_histograms() -> None:
    """Each worker's histograms stay whole, though they are sent in parts: Prometheus's strict parser takes them."""
    workers = {}
    for index in (0, 1, 2):
        registry = Registry()
        seconds = registry.histogram("logbus_seconds", "Seconds.", ("api",), buckets=(0.1, 1.0))
        for number in range(index + 1):
            seconds.labels(api="Fetch").observe(0.5)
            seconds.labels(api="Produce").observe(number)
        workers[index] = registry.collect() if not index else sent(list(encode_in_parts(registry.collect(), 3)))
    text = b"".join(render(merge_families(workers), openmetrics=True)).decode()
    [found] = parse_openmetrics(text)
    assert found.type == "histogram"
    values = {
        (each.labels["worker"], each.labels["api"], each.labels["le"]): each.value
        for each in found.samples
        if each.name.endswith("_bucket")
    }
    assert len(values) == 3 * 2 * 3
    for index in (0, 1, 2):
        assert [values[str(index), "Fetch", le] for le in ("0.1", "1.0", "+Inf")] == [0, index + 1, index + 1]
        assert [values[str(index), "Produce", le] for le in ("0.1", "1.0", "+Inf")] == [1, min(index + 1, 2), index + 1]
