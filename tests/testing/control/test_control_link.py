"""The broker's end of the connection to its test."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.task import Clock
from twisted.internet.tcp import Connection

from logbus.testing.control.controlled_process import ControlLink


class IdleReactor(Clock):
    """It never writes anything."""

    def addReader(self, reader: object) -> None: ...

    def addWriter(self, writer: object) -> None: ...

    def removeWriter(self, writer: object) -> None: ...


@pytest.fixture
def ends() -> Iterator[tuple[ControlLink, socket.socket]]:
    """The broker's end, and the test's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        test_end = socket.create_connection(listener.getsockname())
        broker_end, _ = listener.accept()
    with test_end, broker_end:
        test_end.setblocking(False)
        broker_end.setblocking(False)
        reactor: Any = IdleReactor()
        link = ControlLink(reactor)
        transport = Connection(broker_end, link, reactor)
        transport.connected = 1
        link.makeConnection(transport)
        yield link, test_end


def test_told_at_once(ends: tuple[ControlLink, socket.socket]) -> None:
    """A broker that is killed has told what its clients know: it waits for no later turn of the reactor."""
    link, test_end = ends
    link.tell(b"line\n")
    assert test_end.recv(100) == b"line\n"


def test_without_its_test(ends: tuple[ControlLink, socket.socket]) -> None:
    """A broker whose test is gone goes on as it is."""
    link, test_end = ends
    test_end.close()
    for _ in range(3):
        link.tell(b"line\n")
