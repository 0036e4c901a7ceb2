"""A broker for each module of tests; the marker ``logbus`` of a module has its settings."""

from __future__ import annotations

import pytest

from logbus.testing import Broker


@pytest.fixture(scope="module")
def broker(logbus_module_broker: Broker) -> Broker:
    """The test kit's, by a short name."""
    return logbus_module_broker
