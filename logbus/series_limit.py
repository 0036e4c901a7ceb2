"""
Limits the series of each metric: those past a limit are shown as one, all of whose labels are ``_other``.

Clients choose the names of groups and topics, so without a limit they choose the size of a scrape too. The first
series of a family stay themselves, in the family's order, so that a series does not come and go between scrapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import define, field

from logbus.metrics import Family, Sample

OTHER = "_other"
FOLDED = "logbus_folded_series"
PAUSE_SAMPLES = 10
"""Samples folded between pauses; they cost about as much as one that is shown."""

Labels = tuple[tuple[str, str], ...]
_NONE: Labels = ()


def limit_series(families: Iterable[Family], limit: int) -> Iterator[Family]:
    """
    Yield families with at most ``limit`` series each and one for the others; then one that tells how many those are.

    :param families: the samples of a histogram's series follow each other.
    """
    folded: dict[str, _Fold] = {}
    for family in families:
        fold = folded[family.name] = _Fold(family, limit)
        yield family._replace(samples=fold.samples())
    yield Family(
        FOLDED,
        "Series of a metric that are not shown but added up in one with the labels _other: admin.metrics.max.series.",
        "gauge",
        (
            Sample(FOLDED, (("metric", name),), fold.series - limit)
            for name, fold in folded.items()
            if fold.series > limit
        ),
    )


@define(eq=False)
class _Fold:
    """
    The samples of a family as they are consumed.

    :ivar series: how many there were so far.
    """

    _family: Family
    _limit: int
    series: int = field(default=0, init=False)

    def samples(self) -> Iterator[Sample | None]:
        is_histogram, combine, limit = self._family.type == "histogram", self._family.combine, self._limit
        others: dict[tuple[str, Labels], float] = {}
        last: Labels | None = None
        skipped = 0
        for sample in self._family.samples:
            if sample is None:
                yield None
                continue
            labels, bound = _without_bound(sample.labels) if is_histogram else (sample.labels, _NONE)
            if not is_histogram or labels != last:
                self.series += 1
                last = labels
            if self.series <= limit:
                yield sample
                continue
            key = sample.name, bound
            others[key] = combine(others[key], sample.value) if key in others else sample.value
            skipped += 1
            if skipped % PAUSE_SAMPLES == 0:
                yield None
        names = tuple((label, OTHER) for label, _ in last or _NONE)
        for (name, bound), value in others.items():
            yield Sample(name, names + bound, value)


def _without_bound(labels: Labels) -> tuple[Labels, Labels]:
    """Split the labels of a histogram's sample into those of its series, and that of a bucket."""
    return (labels[:-1], labels[-1:]) if labels and labels[-1][0] == "le" else (labels, ())
