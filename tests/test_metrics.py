"""Tests of :mod:`logbus.metrics`."""

from __future__ import annotations

from attrs import define
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.metrics import Family, HistogramValue, Registry, Sample, metric


def samples(registry: Registry, name: str) -> list[Sample]:
    """Return the collected samples of a family."""
    return [sample for family in registry.collect() if family.name == name for sample in family.samples]


class RegistryTests(SynchronousTestCase):
    """Families and their samples."""

    def setUp(self) -> None:
        self.registry = Registry()

    def test_a_child_is_bound_once_and_counts(self) -> None:
        """The same labels give the same child, whose value is a plain number."""
        requests = self.registry.counter("logbus_requests_total", "Requests.", ("api", "version"))
        child = requests.labels(api="Produce", version="9")
        child.value += 2
        self.assertIs(requests.labels(version="9", api="Produce"), child)
        requests.labels(api="Fetch", version="4").value += 1
        self.assertEqual(
            samples(self.registry, "logbus_requests_total"),
            [
                ("logbus_requests_total", (("api", "Produce"), ("version", "9")), 2),
                ("logbus_requests_total", (("api", "Fetch"), ("version", "4")), 1),
            ],
        )

    def test_without_labels_there_is_one_child_from_the_start(self) -> None:
        """A metric without labels is shown as zero before anything happens."""
        self.registry.counter("logbus_crashes_total", "Crashes.")
        self.assertEqual(samples(self.registry, "logbus_crashes_total"), [("logbus_crashes_total", (), 0)])

    def test_gauges(self) -> None:
        """A gauge is set, or asks a function at each collection."""
        gauge = self.registry.gauge("logbus_connections", "Connections.", ("listener",))
        gauge.labels(listener="a").value = 4
        connections = ["x"]
        gauge.labels(listener="b").function = lambda: len(connections)
        self.assertEqual([s.value for s in samples(self.registry, "logbus_connections")], [4, 1])
        connections.append("y")
        self.assertEqual([s.value for s in samples(self.registry, "logbus_connections")], [4, 2])

    def test_fields(self) -> None:
        """Fields of an object are plain numbers, and metrics: counters, if their names say so, and gauges."""

        @define
        class Door:
            height: int = 2
            opened: int = metric("logbus_opened_total", "How often it was opened.")
            open: int = metric("logbus_open", "Whether it is open.")

        door = Door()
        self.registry.add_fields(door)
        door.opened += 3
        door.open = 1
        found = {(family.name, family.type): [s.value for s in family.samples] for family in self.registry.collect()}
        self.assertEqual(found, {("logbus_opened_total", "counter"): [3], ("logbus_open", "gauge"): [1]})

    def test_a_broken_function_does_not_hide_the_others(self) -> None:
        """The error is logged, and everything else is shown."""
        gauge = self.registry.gauge("logbus_things", "Things.", ("kind",))
        gauge.labels(kind="a").function = lambda: 1 / 0
        gauge.labels(kind="b").value = 1
        self.assertEqual([s.labels for s in samples(self.registry, "logbus_things")], [(("kind", "b"),)])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_histogram_samples(self) -> None:
        """Buckets are cumulative, bounds are inclusive, and sum and count come with them."""
        histogram = self.registry.histogram("logbus_wait_seconds", "Waiting.", ("api",), buckets=(0.5, 1.0))
        child = histogram.labels(api="Fetch")
        for value in (0.25, 0.5, 0.75, 2.0):
            child.observe(value)
        label = ("api", "Fetch")
        self.assertEqual(
            samples(self.registry, "logbus_wait_seconds"),
            [
                ("logbus_wait_seconds_bucket", (label, ("le", "0.5")), 2),
                ("logbus_wait_seconds_bucket", (label, ("le", "1.0")), 3),
                ("logbus_wait_seconds_bucket", (label, ("le", "+Inf")), 4),
                ("logbus_wait_seconds_sum", (label,), 3.5),
                ("logbus_wait_seconds_count", (label,), 4),
            ],
        )
        self.assertEqual(child.count, 4)

    def test_children_are_forgotten(self) -> None:
        """remove() takes a child away; removing what is not there does nothing."""
        counter = self.registry.counter("logbus_bytes_total", "Bytes.", ("topic",))
        counter.labels(topic="a")
        counter.remove(topic="a")
        counter.remove(topic="a")
        self.assertEqual(len(counter), 0)
        self.assertEqual(samples(self.registry, "logbus_bytes_total"), [])

    def test_collecting_survives_changes_in_between(self) -> None:
        """A collection taken up again after children came and went goes on with those there were."""
        counter = self.registry.counter("logbus_bytes_total", "Bytes.", ("topic",))
        for topic in "abc":
            counter.labels(topic=topic)
        (family,) = self.registry.collect()
        seen = [next(family.samples)]
        counter.remove(topic="b")
        counter.labels(topic="d")
        self.registry.gauge("logbus_new", "New.")
        seen += family.samples
        self.assertEqual([sample.labels[0][1] for sample in seen], ["a", "b", "c"])

    def test_sources(self) -> None:
        """Families made at collection time come after the declared ones, fresh each time."""
        sizes = {"a": 1}

        def source() -> list[Family]:
            lines = (Sample("logbus_log_size_bytes", (("topic", topic),), size) for topic, size in sizes.items())
            return [Family("logbus_log_size_bytes", "Size.", "gauge", lines)]

        self.registry.add_source(source)
        self.registry.gauge("logbus_z", "Last by name.")
        self.assertEqual([f.name for f in self.registry.collect()], ["logbus_z", "logbus_log_size_bytes"])
        sizes["b"] = 2
        self.assertEqual([s.value for s in samples(self.registry, "logbus_log_size_bytes")], [1, 2])

    def test_wrong_declarations(self) -> None:
        """Names out of style, taken names, bad labels and bad buckets are refused."""
        registry = self.registry
        registry.gauge("logbus_a", "A.")
        for declare in (
            lambda: registry.gauge("logbus_a", "Again."),
            lambda: registry.gauge("a", "No prefix."),
            lambda: registry.gauge("logbus_A", "Upper case."),
            lambda: registry.counter("logbus_b", "Not _total."),
            lambda: registry.gauge("logbus_c", "Label.", ("le",)),
            lambda: registry.gauge("logbus_d", "Label.", ("a", "a")),
            lambda: registry.gauge("logbus_e", "Label.", ("a-b",)),
            lambda: registry.histogram("logbus_f", "Buckets.", buckets=(2.0, 1.0)),
            lambda: registry.histogram("logbus_g", "Buckets.", buckets=()),
        ):
            self.assertRaises(ValueError, declare)
        self.assertEqual([family.name for family in registry.collect()], ["logbus_a"])

    def test_wrong_labels(self) -> None:
        """Missing, unknown and too many labels are refused."""
        counter = self.registry.counter("logbus_bytes_total", "Bytes.", ("topic",))
        for labels in ({}, {"partition": "1"}, {"topic": "a", "partition": "1"}):
            self.assertRaises(ValueError, counter.labels, **labels)

    @given(st.lists(st.floats(0, 100, allow_nan=False)))
    def test_each_value_is_in_the_first_bucket_that_holds_it(self, values: list[float]) -> None:
        """Counts agree with counting by hand."""
        histogram = HistogramValue((0.1, 1.0, 10.0))
        for value in values:
            histogram.observe(value)
        by_hand = [
            sum(low < v <= high for v in values) for low, high in ((-1, 0.1), (0.1, 1), (1, 10), (10, float("inf")))
        ]
        self.assertEqual(histogram.counts, by_hand)
        self.assertEqual(histogram.count, len(values))
