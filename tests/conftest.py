"""
Hypothesis profiles: ``ci`` (default) for every run, ``long`` for soaks.

Choose by the environment variable ``LOGBUS_HYPOTHESIS_PROFILE``.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# The machines of a build are slow and uneven: a slow example says nothing about the product.
settings.register_profile("ci", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("ci"), max_examples=2000)
settings.load_profile(os.environ.get("LOGBUS_HYPOTHESIS_PROFILE", "ci"))
