"""Tests of logbus.quotas.client_quota_manager."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from logbus.quotas import client_quota_manager
from logbus.quotas.client_quota_manager import LONGEST_WAIT, ClientQuotaManager
from logbus.quotas.quota_table import LONGEST_NAME, UNLIMITED, QuotaTable


@pytest.mark.parametrize("size", [1_000, 20_000, 65_536, 400_000])
def test_a_client_that_waits_as_told_gets_its_quota(size: int) -> None:
    """Within 5 % over 30 seconds, with the burst of the beginning."""
    clock, waits = Clock(), list[float]()
    manager = ClientQuotaManager(QuotaTable(1_000_000), clock.seconds, throttled=waits.append)
    sent = 0
    while clock.seconds() < 30:
        seconds = manager.record("u", "c", size)
        sent += size
        # Throttle times are sent in milliseconds; the client takes a millisecond for ten requests.
        clock.advance(math.ceil(seconds * 1000) / 1000 + 0.0001)
    assert sent == pytest.approx(30_000_000, rel=0.05)
    assert waits


def test_a_client_that_takes_portions_gets_its_quota() -> None:
    """A consumer, which gets at most so much at once, and nothing while it must wait."""
    clock = Clock()
    manager = ClientQuotaManager(QuotaTable(1_000_000), clock.seconds)
    got = 0.0
    while clock.seconds() < 30:
        seconds = manager.wait("u", "c")
        if not seconds:
            most = manager.most("u", "c")
            assert most is not None
            got += most
            seconds = manager.record("u", "c", most)
        clock.advance(math.ceil(seconds * 1000) / 1000)
    assert got == pytest.approx(30_000_000, rel=0.05)


def test_a_client_within_its_quota_never_waits() -> None:
    clock = Clock()
    manager = ClientQuotaManager(QuotaTable(1_000_000), clock.seconds)
    for _ in range(100):
        assert [manager.record("u", "c", 90_000) for _ in range(10)] == [0] * 10
        clock.advance(1)


def test_one_wait_is_no_longer_than_all_windows() -> None:
    """What is more is forgiven."""
    clock = Clock()
    manager = ClientQuotaManager(QuotaTable(10), clock.seconds, 11, 2)
    assert manager.record("u", "c", 1_000_000) == 22
    clock.advance(11)
    assert manager.wait("u", "c") == 11
    clock.advance(11)
    assert manager.wait("u", "c") == 0


def test_a_wait_fits_in_a_response() -> None:
    manager = ClientQuotaManager(QuotaTable(1e-300), Clock().seconds, 2**31 - 1, 2**31 - 1)
    table = manager.quotas
    assert manager.record("u", "c", 1e9) == LONGEST_WAIT
    table.set({"user": "u"}, 0.001)
    assert 0 <= manager.wait("u", "c") <= LONGEST_WAIT


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 500), st.sampled_from("ab"))),
    st.integers(1, 12),
    st.integers(1, 3),
)
def test_waits_like_the_model(steps: list[tuple[int, int, str]], windows: int, seconds: int) -> None:
    """The model knows of each client until when it has had its quota."""
    clock = Clock()
    table = QuotaTable()
    quotas = {"a": 10.0, "b": 64.0}
    for user, quota in quotas.items():
        table.set({"user": user}, quota)
    manager = ClientQuotaManager(table, clock.seconds, windows, seconds)
    until = dict.fromkeys(quotas, 0.0)
    for eighths, amount, user in steps:
        clock.advance(eighths / 8)
        now = clock.seconds()
        until[user] = min(max(until[user], now) + amount / quotas[user], now + seconds + windows * seconds)
        assert manager.record(user, None, amount) == pytest.approx(max(0.0, until[user] - now - seconds), abs=1e-6)


def test_a_changed_quota_is_in_force_at_once() -> None:
    clock = Clock()
    table = QuotaTable()
    manager = ClientQuotaManager(table, clock.seconds)
    table.set({"client-id": "c"}, 10)
    assert manager.record("u", "c", 60) == 5
    table.set({"client-id": "c"}, 20)
    assert manager.wait("u", "c") == 2
    table.set({"client-id": "c"}, UNLIMITED)
    assert not manager.is_active
    assert manager.wait("u", "c") == 0
    assert manager.most("u", "c") is None


def test_clients_without_a_quota_leave_nothing_behind() -> None:
    manager = ClientQuotaManager(QuotaTable(), Clock().seconds)
    assert not manager.is_active
    assert manager.record("u", None, 10**9) == 0
    assert len(manager) == 0


def test_clients_that_have_to_wait_are_not_forgotten() -> None:
    """What a client took in one burst is to be paid for, however long that takes, and whoever comes meanwhile."""
    clock = Clock()
    manager = ClientQuotaManager(QuotaTable(1), clock.seconds, in_bursts=True)
    assert manager.record("u", "large", 1000) == 989
    for n in range(100):
        clock.advance(5)
        manager.record("u", f"c{n}", 1)
    assert manager.wait("u", "large") == 489
    assert len(manager) < 20
    clock.advance(600)
    for n in range(3):
        manager.record("u", f"d{n}", 1)
        clock.advance(1)
    assert manager.wait("u", "large") == 0
    assert len(manager) < 20


def test_idle_clients_are_forgotten() -> None:
    clock = Clock()
    manager = ClientQuotaManager(QuotaTable(1), clock.seconds)
    manager.record("u", "a", 1)
    clock.advance(12)
    manager.record("u", "b", 1)
    assert len(manager) == 1


def test_the_number_of_clients_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quota_manager, "MOST_CLIENTS", 5)
    manager = ClientQuotaManager(QuotaTable(1), Clock().seconds)
    for number in range(20):
        manager.record("u", str(number), 1)
    assert len(manager) == 5


def test_the_names_of_clients_are_limited() -> None:
    """Client ids that differ only at their end share a quota."""
    manager = ClientQuotaManager(QuotaTable(1), Clock().seconds)
    for number in range(3):
        assert manager.record("u", "x" * LONGEST_NAME + str(number), 1) == number
    assert len(manager) == 1
