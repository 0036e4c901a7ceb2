"""Rates of new connections."""

from __future__ import annotations

import pytest

from logbus.quotas.connection_rates import MOST_ADDRESSES, UNLIMITED, ConnectionRates


class Connections:
    """Connections of some addresses and listeners, over time."""

    def __init__(self, exempt: tuple[str, ...] = ()) -> None:
        self.now, self.waits = 0.0, list[tuple[str, float]]()
        self.rates = ConnectionRates(lambda: self.now, exempt, lambda what, seconds: self.waits.append((what, seconds)))

    def admitted(self, host: str, seconds: float, tries: int) -> int:
        """How many of so many tries a second are admitted."""
        start, admitted = self.now, 0
        for number in range(int(seconds * tries)):
            self.now = start + number / tries
            admitted += not self.rates.refuse(host)
        return admitted


@pytest.mark.parametrize("rate", [0.5, 1.0, 10.0, 100.0])
def test_address(rate: float) -> None:
    """An address gets its rate, and a second's connections at once; others do not suffer."""
    connections = Connections()
    connections.rates.set_address("10.0.0.1", rate)
    connections.rates.set_address(None, 1000.0)
    assert connections.rates.is_active
    admitted = connections.admitted("10.0.0.1", 60, 500)
    assert admitted == pytest.approx(rate * 60 + max(rate, 1), rel=0.05, abs=1)
    assert not connections.rates.refuse("10.0.0.2")
    assert {what for what, _ in connections.waits} == {"ip"}


def test_precedence() -> None:
    """An address's own rate precedes that of all; without a limit it has none."""
    connections = Connections()
    connections.rates.set_address(None, 1.0)
    connections.rates.set_address("10.0.0.1", UNLIMITED)
    assert connections.admitted("10.0.0.1", 1, 100) == 100
    assert connections.admitted("10.0.0.2", 1, 100) == 1
    connections.rates.set_address("10.0.0.1", None)
    assert connections.admitted("10.0.0.1", 1, 100) == 1
    connections.rates.set_address(None, None)
    assert not connections.rates.is_active
    assert connections.admitted("10.0.0.2", 1, 100) == 100


@pytest.mark.parametrize(
    ("host", "same"), [("::ffff:10.0.0.1", "10.0.0.1"), ("FE80::0:1%eth0", "fe80::1"), ("", ""), ("x", "x")]
)
def test_addresses(host: str, same: str) -> None:
    """However an address is written, it is one."""
    connections = Connections()
    connections.rates.set_address(same, 1.0)
    assert connections.admitted(host, 1, 100) == (1 if same else 100)


def test_bounded() -> None:
    """Addresses make no state for ever."""
    connections = Connections()
    connections.rates.set_address(None, 1.0)
    for number in range(MOST_ADDRESSES + 10):
        connections.rates.refuse(f"2001:db8::{number:x}")
    assert len(connections.rates._addresses) == MOST_ADDRESSES
    connections.rates.set_address(None, UNLIMITED)
    assert len(connections.rates._addresses) == 0


def test_listeners() -> None:
    """A listener pauses for as long as it had too many; that of the brokers does not for those of others."""
    connections = Connections(("among",))
    connections.rates.set_listeners(10.0, {"a": 5.0, "b": UNLIMITED})
    assert [connections.rates.delay("a") for _ in range(6)] == pytest.approx([0, 0, 0, 0, 0, 0.2])
    # The broker's ten are used up by four more.
    assert [connections.rates.delay("b") for _ in range(5)] == pytest.approx([0, 0, 0, 0, 0.1])
    assert connections.rates.delay("among") == 0
    connections.now = 2
    assert connections.rates.delay("a") == 0
    assert [what for what, _ in connections.waits] == ["listener", "listener"]


def test_nothing_is_set() -> None:
    """By default nothing is counted."""
    rates = Connections().rates
    rates.set_listeners(UNLIMITED, {})
    assert not rates.is_active
