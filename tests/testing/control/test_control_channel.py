"""The test's end of the connection to its broker, with brokers that misbehave."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from logbus.testing.control import control_channel
from logbus.testing.control.channel_lines import ControlAddress, line_of
from logbus.testing.control.control_channel import ControlChannel
from logbus.testing.disk_filling import DiskFilling
from logbus.testing.errors import BrokerFailed
from logbus.testing.faults.control import Faults
from logbus.testing.faults.rule_book import RuleBook
from logbus.testing.requests.history import RequestHistory

DROPPED = {"action": "drop", "api": "Fetch", "times": 3}


class Peer:
    """A broker's end, by hand."""

    def __init__(self, address: ControlAddress, **hello: Any) -> None:
        self.socket = socket.create_connection(("127.0.0.1", address.port), 60)
        self.lines = self.socket.makefile("rb")
        self.say("hello", **{"token": address.token, "broker": 0, **hello})

    def say(self, op: str, **values: Any) -> None:
        self.socket.sendall(line_of(op, **values))

    def hear(self) -> Any:
        line = self.lines.readline()
        return json.loads(line) if line else None

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


class Kit:
    """What a broker of a test has."""

    def __init__(self) -> None:
        self.book, self.history, self.filling = RuleBook(), RequestHistory(), DiskFilling()
        self.channel = ControlChannel(self.book, self.history, self.filling)

    def peer(self, **hello: Any) -> Peer:
        made = Peer(self.channel.address, **hello)
        self.peers.append(made)
        return made

    peers: list[Peer]


@pytest.fixture
def kit() -> Iterator[Kit]:
    """Its connections are closed at the end."""
    made = Kit()
    made.peers = []
    yield made
    for each in made.peers:
        each.close()
    made.channel.close()


def test_state(kit: Kit) -> None:
    """A process that connects is told what is in force; what it has counted already, the next one knows."""
    kit.channel.is_frozen = True
    fault = Faults(kit.book).drop("Fetch", times=3)
    with kit.filling.fill():
        first = kit.peer()
        told = first.hear()
        assert told == {"op": "state", "rules": [[1, DROPPED, 0, 0]], "full": True}
        first.say("count", number=1, seen=2, hits=2)
        assert fault.wait(2, 60)
    assert first.hear()["full"] is False
    first.close()
    assert kit.peer().hear()["rules"] == [[1, DROPPED, 2, 2]]


@pytest.mark.parametrize("hello", [{"token": "guessed"}, {"op": "state"}, {"broker": None, "token": 3}])
def test_strangers(kit: Kit, hello: dict[str, Any]) -> None:
    """Whoever does not have the token is told nothing."""
    if "op" in hello:
        stranger = socket.create_connection(("127.0.0.1", kit.channel.address.port), 60)
        with stranger, stranger.makefile("rb") as lines:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert lines.readline() == b""
    else:
        assert kit.peer(**hello).hear() is None


def test_end_in_the_middle(kit: Kit) -> None:
    """A process that dies while it is asked, or in the middle of a line, is not waited for; what it said counts."""
    kit.channel.is_frozen = True
    peer = kit.peer()
    assert peer.hear()["op"] == "state"
    request = {"api": 0, "version": 9, "client": "c", "connection": 1, "at": 1.0, "subjects": [["t", 0]]}
    peer.say("request", number=1, **request)
    peer.say("answer", number=1, at=1.5, codes=[19])
    peer.socket.sendall(b'{"op":"requ')
    kit.channel.is_frozen = False
    peer.close()
    (found,) = kit.history.find("Produce", error="NOT_ENOUGH_REPLICAS")
    assert (found.seconds, found.topics, found.client_id) == (0.5, ("t",), "c")


def test_no_answer(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that does not answer is one line."""
    monkeypatch.setattr(control_channel, "SETTLE_SECONDS", 0.05)
    assert kit.peer().hear()["op"] == "state"
    with pytest.raises(BrokerFailed, match=r"the broker did not answer its test within 0\.05 s"):
        len(kit.history)
