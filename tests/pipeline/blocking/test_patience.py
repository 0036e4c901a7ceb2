"""Tests that a broker that does not answer is named long before attempts to reach it end."""

from __future__ import annotations

import socket
import threading

import pytest

from logbus.pipeline.blocking import ConnectionSettings, connection, patience, retry
from logbus.pipeline.blocking.connection import Connection
from logbus.pipeline.blocking.patience import telling, unsaid
from logbus.pipeline.errors import Disconnected


def test_silence() -> None:
    """A broker that takes connections and says nothing is named before the attempt ends."""
    told = threading.Event()
    with telling("no answer", lambda _: told.set(), 0.01):
        assert told.wait(60)


def test_answer(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is told of an attempt that ended, nor where the caller has its own words."""
    with telling("no answer"):
        pass
    with unsaid():
        patience.warn("no answer")
    assert not caplog.messages


def test_connection(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection names its broker."""
    monkeypatch.setattr(connection, "PATIENCE", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings = ConnectionSettings.from_options(
            {"bootstrap.servers": "unused:1", "socket.connection.setup.timeout.ms": "1000"}
        )
        port = server.getsockname()[1]
        with pytest.raises(Disconnected):
            Connection(settings, "127.0.0.1", port)
    assert caplog.messages == [f"broker 127.0.0.1:{port} has not answered for 0.01 s; still trying"]


def test_retries(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails for long is told once, with what there is left to wait."""
    monkeypatch.setattr(retry, "PATIENCE", 0.0)
    settings = ConnectionSettings.from_options({"bootstrap.servers": "127.0.0.1:1", "retry.backoff.ms": "1"})
    timer = retry.RetryTimer.of(settings, 60.0)
    for _ in range(3):
        timer.failed(Disconnected("127.0.0.1:1: Connection refused"))
    (line,) = caplog.messages
    assert line.startswith("127.0.0.1:1: Connection refused; still trying for ")
    timer.succeeded()
    timer.failed(Disconnected("127.0.0.1:1: Connection refused"))
    assert len(caplog.messages) == 2
