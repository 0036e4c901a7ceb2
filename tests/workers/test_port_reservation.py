"""Ports that are held, and ports that others have."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from logbus.errors import ConfigError
from logbus.workers.port_reservation import PortReservation


def test_workers_share_what_is_held() -> None:
    """A worker can listen there, and no program that does not share ports."""
    ports = PortReservation()
    port = ports.reserve("127.0.0.1", 0)
    with closing(socket.create_server(("127.0.0.1", port), reuse_port=True)), pytest.raises(OSError):
        socket.create_server(("127.0.0.1", port))
    ports.release()


@pytest.mark.parametrize("shared", [False, True])
def test_a_port_of_others(shared: bool) -> None:
    """It is refused, also if its program would share it: another supervisor's workers do."""
    with closing(socket.create_server(("127.0.0.1", 0), reuse_port=shared)) as other:
        ports, port = PortReservation(), other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1, for a worker: .*already in use"):
            ports.reserve("127.0.0.1", port)
        ports.release()
