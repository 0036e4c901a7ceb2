"""Many clients of HTTP that say nothing, while a probe asks whether the broker lives."""

from __future__ import annotations

import http.client
import selectors
import socket
from contextlib import ExitStack

import pytest

from logbus.admin.http_limits import HttpLimits
from logbus.testing import Broker

SECONDS = 120
PROBES = 38
"""So many were refused once, each of them."""


pytestmark = pytest.mark.logbus(in_process=False)


def _probe(address: str, path: str) -> int:
    connection = http.client.HTTPConnection(address, timeout=SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


@pytest.mark.parametrize("said", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_idle_connections(logbus_module_broker: Broker, said: bytes) -> None:
    """
    As many connections as there may be, which say nothing, half a request or nothing more, keep no probe out; and
    whoever goes on asking on a connection of its own is served.
    """
    address = logbus_module_broker.admin_url.removeprefix("http://")
    host, _, port = address.partition(":")
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        idle = []
        for _ in range(HttpLimits().connections):
            each = stack.enter_context(socket.create_connection((host, int(port)), SECONDS))
            each.sendall(said)
            idle.append(each)
        for number in range(PROBES):
            assert _probe(address, "/healthz" if number % 2 else "/readyz") == 200, number
        if not said:
            # Not all were closed for that.
            for each in idle:
                selector.register(each, selectors.EVENT_READ)
            assert len(selector.select(0)) < len(idle)
