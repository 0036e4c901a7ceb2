"""The fixtures pytest finds once logbus is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from logbus.errors import LogbusError
from logbus.testing.broker import Broker
from logbus.testing.settings import Setting

if TYPE_CHECKING:
    from logbus.testing import cluster as clusters


@pytest.fixture(scope="session")
def logbus_config() -> Mapping[str, Setting]:
    """The settings of the brokers; a project that needs others has a fixture of its own with this name."""
    return {}


@pytest.fixture
def logbus_broker(logbus_config: Mapping[str, Setting]) -> Iterator[Broker]:
    """A real broker on a free port, with an empty data directory, for one test."""
    with _plainly(), Broker(logbus_config) as broker:
        yield broker


@pytest.fixture(scope="session")
def logbus_session_broker(logbus_config: Mapping[str, Setting]) -> Iterator[Broker]:
    """One broker for the whole session; tests that share it use topics of their own."""
    with _plainly(), Broker(logbus_config) as broker:
        yield broker


@pytest.fixture
def logbus_cluster() -> Iterator[clusters.Cluster]:
    """Three real brokers and a ZooKeeper, for one test."""
    from logbus.testing.cluster import Cluster

    with _plainly(), Cluster() as cluster:
        yield cluster


@contextmanager
def _plainly() -> Iterator[None]:
    """Show only the message of a failed start or stop, without a traceback through the test kit."""
    try:
        yield
    except LogbusError as e:
        raise pytest.fail.Exception(str(e), pytrace=False) from None
