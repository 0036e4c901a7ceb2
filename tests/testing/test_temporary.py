"""Temporary directories of brokers that run stay, whatever other processes remove of what was left."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from logbus.testing import Broker
from logbus.testing.server.brokers_under_test import BrokersUnderTest
from logbus.testing.server.options import ServerOptions

ANOTHER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from logbus.testing.temporary import remove_temporary, temporary_directory
remove_temporary(temporary_directory("another"))
"""


def sweep(place: Path) -> None:
    """Have another process make a directory there, which first removes what was left by others."""
    subprocess.run([sys.executable, "-c", ANOTHER, str(place)], check=True, timeout=60)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary directories are."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_was_left_goes(place: Path) -> None:
    """Nobody holds the lock of a directory whose process was killed."""
    left = place / "logbus-test-broker-left"
    left.mkdir()
    (left / "meta.properties").touch()
    sweep(place)
    assert list(place.iterdir()) == []


def test_a_server_that_was_reset(place: Path) -> None:
    """A reset leaves nothing in its broker's directory, and the directory its own."""
    brokers = BrokersUnderTest(ServerOptions())
    brokers.open()
    try:
        brokers.reset()
        [directory] = place.iterdir()
        sweep(place)
        assert list(directory.iterdir())
        brokers.reset()
    finally:
        brokers.close()
    assert list(place.iterdir()) == []


def test_a_broker_that_was_restored(place: Path) -> None:
    """Nor does another process take away what a snapshot has brought, or the snapshot."""
    with Broker() as broker, broker.snapshot() as kept:
        broker.restore(kept)
        sweep(place)
        assert len(list(place.iterdir())) == 2
        broker.restore(kept)
        assert broker.admin.topics() == []
