"""The fixtures pytest finds once logbus is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from logbus.testing.broker import Broker


@pytest.fixture
def logbus_broker() -> Iterator[Broker]:
    """A real broker on a free port, with an empty data directory, for one test."""
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def logbus_session_broker() -> Iterator[Broker]:
    """One broker for the whole session; tests that share it use topics of their own."""
    with Broker() as broker:
        yield broker
