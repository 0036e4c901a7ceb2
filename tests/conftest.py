"""
Hypothesis profiles: ``ci`` (default) for every run, ``more`` for ``tests/run long``, ``long`` for soaks.

Choose by the environment variable ``LOGBUS_HYPOTHESIS_PROFILE``.
"""

from __future__ import annotations

import gc
import os
from collections import deque
from unittest import TestCase

import pytest
from hypothesis import HealthCheck, settings
from twisted.logger import globalLogBeginner

from logbus.registry import protobuf_compiler

# The machines of a build are slow and uneven: a slow example says nothing about the product.
# What a busy machine or an unlucky seed decides is no failure.
_CHANCES = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("ci", max_examples=50, deadline=None, suppress_health_check=_CHANCES)
settings.register_profile("more", settings.get_profile("ci"), max_examples=400)
settings.register_profile("long", settings.get_profile("ci"), max_examples=2000)
settings.load_profile(os.environ.get("LOGBUS_HYPOTHESIS_PROFILE", "ci"))

# Real time, which a machine that is busy with all of the tests does not keep.
protobuf_compiler.LONGEST_WAIT = 300.0

# Until an application begins to log, Twisted remembers the last events, and with each of them what has logged it.
globalLogBeginner._initialBuffer._buffer = deque(maxlen=0)

# Projects of their own, whose tests tests/interop/test_samples.py runs in processes of their own.
collect_ignore = ["samples"]


def pytest_collection_finish(session: pytest.Session) -> None:
    """
    What was imported stays, and is most of what there is: the garbage collector shall not look at it each time.

    Whole brokers and clusters come and go in tests, and each is collected before the next one.
    """
    for item in session.items:
        # Test cases are made when they are collected. They would stay, too, with the brokers that they get, of which
        # the garbage collector would have ever more to look at. Each is made again when it is run.
        if isinstance(item, pytest.Function) and isinstance(item.instance, TestCase):
            item.obj = None
            del item._instance
    gc.collect()
    gc.freeze()
