"""Tests of ``/metrics`` and of :mod:`logbus.exposition`, with Prometheus's own parser."""

from __future__ import annotations

import time
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.replication.partition_metrics import SERIES
from logbus.config.topic_config import TopicConfig
from logbus.exposition import OPENMETRICS, SLICE_SAMPLES, TEXT, process_families, render, wants_openmetrics
from logbus.metrics import Family, Registry, Sample
from tests.admin.harness import World, replica

Read = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(text: str, openmetrics: bool) -> Read:
    """Parse an exposition into values by name and labels."""
    parse = parse_openmetrics if openmetrics else parse_text
    found: Read = {}
    for family in parse(text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, key
            found[key] = sample.value
    return found


def kinds(text: str, openmetrics: bool) -> dict[str, str]:
    """Types of families by name without ``_total``."""
    parse = parse_openmetrics if openmetrics else parse_text
    return {family.name.removesuffix("_total"): family.type for family in parse(text)}


def filled() -> Registry:
    """A registry with metrics of all types."""
    registry = Registry()
    requests = registry.counter("logbus_requests_total", "Requests.\nBy API \\ name.", ("api",))
    requests.labels(api="Produce").value += 7
    requests.labels(api='a"b\\c\nd').value += 1
    registry.gauge("logbus_connections", "Open.").labels().value = 3
    registry.gauge("logbus_empty", "Nothing yet.", ("who",))
    latency = registry.histogram("logbus_latency_seconds", "How long.", ("api",))
    for value in (0.0001, 0.02, 50.0):
        latency.labels(api="Fetch").observe(value)
    return registry


class RenderTests(SynchronousTestCase):
    """Both formats contain the registry's metrics."""

    def test_both_formats(self) -> None:
        """The parsers of Prometheus's own client read each value, whatever is in the labels."""
        for openmetrics in (False, True):
            text = b"".join(render(filled().collect(), openmetrics)).decode()
            values = read(text, openmetrics)
            self.assertEqual(values["logbus_requests_total", (("api", "Produce"),)], 7)
            self.assertEqual(values["logbus_requests_total", (("api", 'a"b\\c\nd'),)], 1)
            self.assertEqual(values["logbus_connections", ()], 3)
            self.assertEqual(values["logbus_latency_seconds_count", (("api", "Fetch"),)], 3)
            self.assertEqual(values["logbus_latency_seconds_bucket", (("api", "Fetch"), ("le", "+Inf"))], 3)
            told = kinds(text, openmetrics)
            self.assertEqual(told["logbus_requests"], "counter")
            self.assertEqual(told["logbus_latency_seconds"], "histogram")
            self.assertEqual(told["logbus_empty"], "gauge")

    @given(st.integers(1, 40), st.booleans())
    def test_slices_are_invisible(self, slice_samples: int, openmetrics: bool) -> None:
        """The same bytes come out however many samples are formatted at a time."""
        whole = b"".join(render(filled().collect(), openmetrics, 10_000))
        self.assertEqual(b"".join(render(filled().collect(), openmetrics, slice_samples)), whole)

    def test_slices_are_small(self) -> None:
        """No piece has more samples than asked for, and none is made before it is wanted."""
        made: list[int] = []

        def samples() -> Iterator[Sample]:
            for number in range(100):
                made.append(number)
                yield Sample("logbus_many", (("n", str(number)),), number)

        pieces = render([Family("logbus_many", "Many.", "gauge", samples())], False, 10)
        for count in range(1, 11):
            piece = next(pieces)
            self.assertEqual(len([line for line in piece.splitlines() if not line.startswith(b"#")]), 10)
            self.assertEqual(len(made), 10 * count)

    def test_empty_registry(self) -> None:
        """The output of a registry without metrics is valid."""
        self.assertEqual(b"".join(render([], True)), b"# EOF\n")
        self.assertEqual(b"".join(render([], False)), b"")

    def test_process(self) -> None:
        """Memory, CPU time, descriptors and start time are told by the names that all exporters use."""
        for openmetrics in (False, True):
            values = read(b"".join(render(process_families(), openmetrics)).decode(), openmetrics)
            self.assertGreater(values["process_resident_memory_bytes", ()], 1 << 20)
            self.assertGreater(values["process_cpu_seconds_total", ()], 0)
            self.assertGreater(values["process_open_fds", ()], 2)
            self.assertLess(abs(time.time() - values["process_start_time_seconds", ()]), 86_400)


class NegotiationTests(SynchronousTestCase):
    """The choice of the format."""

    def test_accept(self) -> None:
        """OpenMetrics is chosen only if a supported version is accepted, with at least the quality of text."""
        prometheus = (
            "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,"
            "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
        )
        for accept, wanted in (
            (prometheus, True),
            ("application/openmetrics-text", True),
            ("Application/OpenMetrics-Text; Version=1.0.0", True),
            ("application/openmetrics-text;version=2.0.0", False),
            ("application/openmetrics-text;q=0.1,text/plain", False),
            ("application/openmetrics-text;q=0", False),
            ("application/openmetrics-text;q=nan", False),
            ("application/openmetrics-text;q=x", False),
            ("text/plain", False),
            ("text/html,*/*;q=0.8", False),
            ("", False),
            (";;,,=;q", False),
        ):
            self.assertEqual(wants_openmetrics(accept), wanted, accept)


class MetricsViewTests(SynchronousTestCase):
    """``/metrics``."""

    def setUp(self) -> None:
        self.world = World(registry=filled())

    def test_formats(self) -> None:
        """Each format comes with its type, and is whole."""
        for accept, kind in (("", TEXT), ("application/openmetrics-text;version=1.0.0", OPENMETRICS)):
            answered = self.world.ask("GET", "/metrics", headers={"Accept": accept})
            self.assertEqual((answered.headers["Content-Type"], answered.headers["Vary"]), (kind, "Accept"))
            values = read(answered.body.decode(), kind is OPENMETRICS)
            self.assertEqual(values["logbus_connections", ()], 3)
            self.assertIn(("process_open_fds", ()), values)

    def test_process_registry_is_not_used(self) -> None:
        """The registry that prometheus_client keeps for the whole process is not shown, and gets nothing of ours."""
        text = self.world.ask("GET", "/metrics").body
        self.assertNotIn(b"python_info", text)
        self.assertNotIn("logbus", "".join(metric.name for metric in REGISTRY.collect()))

    def test_partition_metrics_are_optional(self) -> None:
        """Partitions have series while the configuration says so."""
        self.assertNotIn(b"logbus_partition", self.world.ask("GET", "/metrics").body)
        self.world.view.update(cluster={"admin.metrics.per.partition": "true"})
        values = read(self.world.ask("GET", "/metrics").body.decode(), False)
        labels = (("partition", "0"), ("topic", "orders"))
        self.assertEqual(values["logbus_partition_log_end_offset", labels], 10)
        self.assertEqual(values["logbus_partition_high_watermark", labels], 9)
        self.assertEqual(values["logbus_partition_size_bytes", labels], 700)
        self.assertEqual(values["logbus_partition_leader", labels], 1)
        self.assertEqual(values["logbus_partition_in_sync_replicas", labels], 1)
        self.assertNotIn(("logbus_partition_cleaned_end_offset", labels), values)

    def test_compacted_partitions(self) -> None:
        """How far a log is cleaned is told of those that are compacted."""
        self.world.view.update(cluster={"admin.metrics.per.partition": "true"})
        config = TopicConfig(cleanup_policy=frozenset({"compact"}))
        self.world.replicas.add(replica("state", 3, config=config, cleaned_end_offset=7))
        values = read(self.world.ask("GET", "/metrics").body.decode(), False)
        found = {labels: value for (name, labels), value in values.items() if name.endswith("_cleaned_end_offset")}
        self.assertEqual(found, {(("partition", "3"), ("topic", "state")): 7})

    def test_series_are_limited(self) -> None:
        """What is past the limit is summed, and told of."""
        for number in range(30):
            self.world.replicas.add(replica("many", number))
        limits = {"admin.metrics.per.partition": "true", "admin.metrics.max.series": "10"}
        self.world.view.update(cluster=limits)
        values = read(self.world.ask("GET", "/metrics").body.decode(), False)
        name = "logbus_partition_log_end_offset"
        shown = {labels: value for (found, labels), value in values.items() if found == name}
        others = (("partition", "_other"), ("topic", "_other"))
        self.assertEqual(len(shown), 11)
        folded = values["logbus_folded_series", (("metric", name),)]
        self.assertEqual(folded, len(list(self.world.replicas)) - 10)
        self.assertEqual(shown[others], 10 * folded)

    def test_thousands_of_partitions(self) -> None:
        """No turn of the reactor formats for long, however many series there are."""
        self.world.view.update(cluster={"admin.metrics.per.partition": "true", "admin.metrics.max.series": "10000"})
        for number in range(2_000):
            self.world.replicas.add(replica("many", number))
        self.world.ask("GET", "/metrics?", headers={"Accept": "application/openmetrics-text"})  # imports
        connection = self.world.connect()
        connection.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        turns: list[float] = []
        lines = 0
        while not connection.closed:
            started = time.process_time()
            self.world.clock.turn()
            turns.append(time.process_time() - started)
            lines += connection.take().count(b"logbus_partition")
        connection.lose()
        # One of them is that of compacted logs.
        self.assertGreater(lines, (len(SERIES) - 1) * 2_000)
        self.assertGreater(len(turns), len(SERIES) * 2_000 // SLICE_SAMPLES)
        turns.sort()
        self.assertLess(turns[len(turns) * 99 // 100], 0.02)
