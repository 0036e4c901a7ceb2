"""
Checks that what the pages on performance say of the comparison with Kafka is what its table has.
"""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median

PAGES = Path(__file__).parent.parent.parent / "docs/explanation"
_CELL = re.compile(r"^ {4}(?:produce|beside-bulk|fetch|tail|rd-)\S* +(\S+) +(\S+) +(\S+)", re.MULTILINE)


def words(page: str) -> str:
    """The text of a page with single spaces."""
    return " ".join((PAGES / page).read_text().split())


def ratios() -> list[list[float]]:
    """The ratios of the whole table: of rates, 99th percentiles and CPU; tails have no rate of their own."""
    rows = _CELL.findall((PAGES / "performance/kafka.rst").read_text())
    return [[float(each) for each in column if each != r"\-"] for column in zip(*rows, strict=True)]


def test_summary_of_the_table() -> None:
    """The lines below the table count its cells, and have their medians."""
    said = words("performance/kafka.rst")
    columns = ratios()
    assert len(columns[0]) < len(columns[1]) == len(columns[2])
    at_least = [f"{sum(ratio >= 1 for ratio in column)} of {len(column)}" for column in columns]
    well_ahead = [f"{sum(ratio >= 1.5 for ratio in column)}" for column in columns]
    medians = [f"{median(column):.2f}" for column in columns]
    assert f"1 or more {' '.join(at_least)} " in said
    assert f"1.5 or more {' '.join(well_ahead)} " in said
    assert f"median {' '.join(medians)} " in said


def test_overview() -> None:
    """The page above it says the same."""
    said = words("performance.rst")
    rate, tail, cpu = ratios()
    ahead, tail_ahead, cpu_ahead = (sum(ratio >= 1 for ratio in column) for column in (rate, tail, cpu))
    assert (
        f"the rate is at Kafka's or above in {ahead} of {len(rate)} cells, the CPU in {cpu_ahead} of {len(cpu)}, "
        f"the 99th percentile in {tail_ahead} of {len(tail)}."
    ) in said
    assert (
        f"The medians of the ratios are {median(rate):.2f} for the rate, {median(tail):.2f} for the 99th percentile "
        f"and {median(cpu):.2f} for CPU"
    ) in said
    assert f"The whole table of {len(tail)} cells" in said
