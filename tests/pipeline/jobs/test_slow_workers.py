"""Tests that work is repeated if Spark's Python processes start slowly, and only then."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.slow_workers import STARTS, retried

SLOW = PySparkException("Job aborted: org.apache.spark.SparkException: Python worker failed to connect back.")


def failing(*errors: Exception) -> Callable[[], str]:
    """Work that fails with these errors first."""
    left = list(errors)

    def work() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return work


def test_slow_ones_are_started_again() -> None:
    """A line says so each time."""
    told: list[str] = []
    slow = (SLOW, Py4JError(str(SLOW)))
    assert retried(failing(*slow), JobControl(told.append)) == "done"
    assert told == ["a Python process did not start in time, as on a busy machine; starting it again"] * 2


def test_others_are_errors() -> None:
    """So is one that never starts."""
    with pytest.raises(PySparkException, match="no such column"):
        retried(failing(PySparkException("no such column")), JobControl())
    with pytest.raises(PySparkException, match="connect back"):
        retried(failing(*[SLOW] * STARTS), JobControl())


def test_a_job_that_stops() -> None:
    """It is not begun again."""
    watch = JobControl()
    watch.stop()
    with pytest.raises(PySparkException, match="connect back"):
        retried(failing(SLOW), watch)
