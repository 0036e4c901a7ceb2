"""One broker for all tests of the client for asyncio, each of which has topics of its own."""

from __future__ import annotations

from uuid import uuid4

import pytest

from logbus.testing import Broker


@pytest.fixture(scope="session")
def bootstrap(logbus_session_broker: Broker) -> str:
    """Where the broker is reached."""
    return logbus_session_broker.bootstrap


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"topic-{uuid4().hex}"
