"""
Repeats work for which Spark's Python processes did not start in time.

Spark gives a new Python process ten seconds to connect to it, which are over on a busy machine before the process has
read its modules. Spark has no setting for it, and a local Spark does not repeat tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from logbus.pipeline.jobs.job_control import JobControl

T = TypeVar("T")

STARTS = 5
"""How often work is begun."""

IMPATIENT = "failed to connect back"
"""Part of Spark's error if a Python process did not start in time."""


def retried(work: Callable[[], T], watch: JobControl) -> T:
    """
    The result of work, which is repeated if a Python process did not start in time.

    :param work: can be called several times.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    for left in reversed(range(STARTS)):
        try:
            return work()
        except (PySparkException, Py4JError) as e:
            if IMPATIENT not in str(e) or not left or watch.is_stopping:
                raise
            watch.tell("a Python process did not start in time, as on a busy machine; starting it again")
    raise AssertionError("the last attempt returns or raises")
