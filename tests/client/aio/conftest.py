"""One broker for all tests of the client for asyncio, each of which has topics of its own."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from logbus.testing import Broker


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """The broker."""
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def bootstrap(broker: Broker) -> str:
    """Where it is reached."""
    return broker.bootstrap


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"topic-{uuid4().hex}"
