"""
Hypothesis profiles: ``ci`` (default) for every run, ``long`` for soaks.

Choose by the environment variable ``LOGBUS_HYPOTHESIS_PROFILE``.
"""

from __future__ import annotations

import gc
import os

from hypothesis import HealthCheck, settings

# The machines of a build are slow and uneven: a slow example says nothing about the product.
settings.register_profile("ci", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("ci"), max_examples=2000)
settings.load_profile(os.environ.get("LOGBUS_HYPOTHESIS_PROFILE", "ci"))


# Projects of their own, whose tests tests/interop/test_samples.py runs in processes of their own.
collect_ignore = ["samples"]


def pytest_collection_finish() -> None:
    """
    What was imported stays, and is most of what there is: the garbage collector shall not look at it each time.

    Whole brokers and clusters come and go in tests, and each is collected before the next one.
    """
    gc.collect()
    gc.freeze()
