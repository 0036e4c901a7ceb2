"""
Counters, gauges and histograms, and the registry that lists them.

The hot path changes plain numbers: bind a child once, then ``child.value += 1``. This module is independent of HTTP and
of Prometheus's text format; :meth:`Registry.collect` and the samples of a family are iterators, so that they can be
rendered in slices.

Names are in Prometheus's style: ``logbus_`` first, base units (seconds, bytes), counters end in ``_total``.
"""

from __future__ import annotations

import operator
import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from attrs import define, field, fields
from twisted.logger import Logger

_NAME = re.compile(r"logbus_[a-z0-9]+(_[a-z0-9]+)*")
_LABEL = re.compile(r"[a-z][a-z0-9_]*")
_METRIC = "metric"

LATENCY_BUCKETS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Seconds: from a request served from memory to one that waited for replicas."""


class Sample(NamedTuple):
    """
    A sample: one line of the exposition format.

    :ivar name: the family's name, with ``_bucket``, ``_sum`` or ``_count`` appended in a histogram.
    :ivar labels: names and values, in the order declared.
    """

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


class Family(NamedTuple):
    """
    A metric with the samples of all its children.

    :ivar type: ``counter``, ``gauge`` or ``histogram``.
    :ivar samples: an iterator, made on demand. None is a pause: no sample, but about as much work as one.
    :ivar combine: makes one value of two, where several series are shown as one: :mod:`logbus.series_limit`.
    """

    name: str
    help: str
    type: str
    samples: Iterator[Sample | None]
    combine: Callable[[float, float], float] = operator.add


def joined_families(parts: Iterable[Iterable[Family]]) -> list[Family]:
    """Make one family of those of the same name, which several sources have, each with labels of its own."""
    found: dict[str, Family] = {}
    for each in chain.from_iterable(parts):
        known = found.get(each.name)
        found[each.name] = each if known is None else known._replace(samples=chain(known.samples, each.samples))
    return list(found.values())


class SingleValue:
    """
    The value of a counter (``child.value += 1``), or of a gauge, which is set.

    :ivar function: if set, called at each collection instead, for numbers that are counted elsewhere.
    """

    __slots__ = ("function", "value")

    def __init__(self) -> None:
        self.value: float = 0
        self.function: Callable[[], float] | None = None


class HistogramValue:
    """
    The counts of a histogram.

    :ivar bounds: inclusive upper bounds of the buckets, ascending; one more bucket follows the last.
    :ivar counts: values per bucket (not cumulative), one longer than ``bounds``.
    :ivar sum: the sum of all values.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum: float = 0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """The number of observed values."""
        return sum(self.counts)


V = TypeVar("V", SingleValue, HistogramValue)


class _Labelled(ABC, Generic[V]):
    """
    A metric: one child per combination of label values, or a single one without labels.

    Children are created on first use; keep the result of :meth:`labels`.
    """

    type: ClassVar[str]

    _log = Logger()

    def __init__(self, name: str, help: str, label_names: tuple[str, ...], make: Callable[[], V]) -> None:
        self.name = name
        self.help = help
        self.label_names = label_names
        self._make: Callable[[], V] = make
        self._children: dict[tuple[str, ...], V] = {}

    def labels(self, **values: str) -> V:
        """
        Return the child for these label values.

        :raises ValueError: the labels are not the declared ones.
        """
        key = self._key(values)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._make()
        return child

    def remove(self, **values: str) -> None:
        """Remove a child, if it exists, as of a deleted topic."""
        self._children.pop(self._key(values), None)

    def __len__(self) -> int:
        return len(self._children)

    def _key(self, values: dict[str, str]) -> tuple[str, ...]:
        if len(values) != len(self.label_names) or not values.keys() >= set(self.label_names):
            raise ValueError(f"{self.name} has the labels {self.label_names}, not {tuple(values)}")
        return tuple([values[name] for name in self.label_names])

    def family(self) -> Family:
        """Return the family with its current samples."""
        return Family(self.name, self.help, self.type, self._samples(list(self._children.items())))

    def _samples(self, children: list[tuple[tuple[str, ...], V]]) -> Iterator[Sample]:
        for values, child in children:
            yield from self._render(tuple(zip(self.label_names, values, strict=True)), child)

    @abstractmethod
    def _render(self, labels: tuple[tuple[str, str], ...], child: V) -> Iterator[Sample]:
        """Yield the samples of a child."""


class _Single(_Labelled[SingleValue]):
    """A number per combination of labels."""

    def _render(self, labels: tuple[tuple[str, str], ...], child: SingleValue) -> Iterator[Sample]:
        value: float = child.value
        if child.function is not None:
            try:
                value = child.function()
            except Exception:
                # A failing function must not break the whole scrape.
                self._log.failure("the function of {name} failed", name=self.name)
                return
        yield Sample(self.name, labels, value)


class Counter(_Single):
    """A counter per combination of labels."""

    type = "counter"


class Gauge(_Single):
    """A gauge per combination of labels."""

    type = "gauge"


class Histogram(_Labelled[HistogramValue]):
    """A histogram per combination of labels."""

    type = "histogram"

    def _render(self, labels: tuple[tuple[str, str], ...], child: HistogramValue) -> Iterator[Sample]:
        return histogram_samples(self.name, labels, child)


def histogram_samples(name: str, labels: tuple[tuple[str, str], ...], value: HistogramValue) -> Iterator[Sample]:
    """Yield the samples of a histogram: its buckets, which are cumulative, its sum and its count."""
    running = 0
    for bound, count in zip((*value.bounds, float("inf")), value.counts, strict=True):
        running += count
        text = "+Inf" if bound == float("inf") else repr(float(bound))
        yield Sample(f"{name}_bucket", (*labels, ("le", text)), running)
    yield Sample(f"{name}_sum", labels, value.sum)
    yield Sample(f"{name}_count", labels, running)


def metric(name: str, help: str) -> Any:
    """
    A field of an attrs class that is shown as a metric: a plain number, 0 at first.

    :meth:`Registry.add_fields` declares it: a counter if ``name`` ends in ``_total``, else a gauge.
    """
    return field(default=0, init=False, metadata={_METRIC: (name, help)})


def _metrics_of(counted: Any) -> Iterator[tuple[str, str, str]]:
    for each in fields(type(counted)):
        if _METRIC in each.metadata:
            yield each.name, *each.metadata[_METRIC]


def computed_gauges(totals: Any, compute: Iterator[None]) -> Iterator[Family]:
    """
    Yield the fields of an object that are metrics as gauges, which are computed as they are collected.

    :param compute: sets the fields; runs with the samples of the first gauge, where what it yields are pauses.
    """

    def samples(attribute: str, name: str) -> Iterator[Sample | None]:
        yield from compute
        yield Sample(name, (), getattr(totals, attribute))

    for attribute, name, help in _metrics_of(totals):
        yield Family(name, help, "gauge", samples(attribute, name))


@define(eq=False)
class Registry:
    """
    The metrics of a broker or client. There is no registry per process.
    """

    _families: dict[str, Counter | Gauge | Histogram] = field(factory=dict, init=False)
    _sources: list[Callable[[], Iterable[Family]]] = field(factory=list, init=False)

    def counter(
        self, name: str, help: str, labels: tuple[str, ...] = (), *, read: Callable[[], float] | None = None
    ) -> Counter:
        """
        Declare a counter. Without labels, ``registry.counter(…).labels()`` is its only child.

        :param read: called at each collection for the value, of a counter without labels that is counted elsewhere.
        :raises ValueError: the name is taken or malformed; also for other types.
        """
        if not name.endswith("_total"):
            raise ValueError(f"{name}: a counter's name ends in _total")
        family = Counter(name, help, labels, SingleValue)
        self._add(family)
        if read is not None:
            family.labels().function = read
        return family

    def gauge(
        self, name: str, help: str, labels: tuple[str, ...] = (), *, read: Callable[[], float] | None = None
    ) -> Gauge:
        """Declare a gauge; ``read`` as for a counter."""
        family = Gauge(name, help, labels, SingleValue)
        self._add(family)
        if read is not None:
            family.labels().function = read
        return family

    def histogram(
        self, name: str, help: str, labels: tuple[str, ...] = (), buckets: tuple[float, ...] = LATENCY_BUCKETS
    ) -> Histogram:
        """
        Declare a histogram.

        :param buckets: upper bounds of the buckets, ascending.
        """
        if not buckets or list(buckets) != sorted(set(buckets)):
            raise ValueError(f"{name}: the buckets {buckets} do not rise")
        family = Histogram(name, help, labels, lambda: HistogramValue(buckets))
        self._add(family)
        return family

    def add_fields(self, counted: Any) -> None:
        """Declare the metrics among the fields of an object (:func:`metric`)."""
        for attribute, name, help in _metrics_of(counted):
            declare = self.counter if name.endswith("_total") else self.gauge
            declare(name, help, read=partial(getattr, counted, attribute))

    def add_source(self, source: Callable[[], Iterable[Family]]) -> None:
        """
        Add a callable that makes families at each collection, from objects with their own counters (as one series for
        each of 10,000 partitions).
        """
        self._sources.append(source)

    def collect(self) -> Iterator[Family]:
        """
        Yield all families by name, then those of the sources.

        This iterator and each family's samples may be continued in a later reactor turn; children may be added or
        removed in between.
        """
        for _, family in sorted(self._families.items()):
            yield family.family()
        for source in list(self._sources):
            yield from source()

    def _add(self, family: Counter | Gauge | Histogram) -> None:
        if not _NAME.fullmatch(family.name):
            raise ValueError(f"{family.name} is not a metric's name like logbus_requests_total")
        if family.name in self._families:
            raise ValueError(f"{family.name} is declared already")
        for label in family.label_names:
            if not _LABEL.fullmatch(label) or label == "le" or family.label_names.count(label) > 1:
                raise ValueError(f"{family.name}: {label!r} cannot be a label")
        if not family.label_names:
            # Shown as zero from the start.
            family.labels()
        self._families[family.name] = family
