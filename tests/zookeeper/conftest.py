"""One ZooKeeper for all tests that do not stop it; the others start their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from twisted.logger import globalLogPublisher, textFileLogObserver

from logbus.testing.zookeeper import ZooKeeper


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeper]:
    """One server, whose sessions may be expired, but which stays up."""
    with ZooKeeper() as running:
        yield running


@pytest.fixture(scope="class", autouse=True)
def zookeeper_of_class(request: pytest.FixtureRequest) -> None:
    """The same, for test cases."""
    if request.cls is not None:
        request.cls.zookeeper = request.getfixturevalue("zookeeper")


@pytest.fixture(autouse=True)
def log() -> Iterator[None]:
    """A test that fails shows what the log was told."""
    observer = textFileLogObserver(sys.stdout)
    globalLogPublisher.addObserver(observer)
    try:
        yield
    finally:
        globalLogPublisher.removeObserver(observer)
