"""Tests of logbus.quotas.client_quota_manager."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from logbus.quotas import client_quota_manager
from logbus.quotas.client_quota_manager import ClientQuotaManager
from logbus.quotas.quota_table import QuotaTable


def test_a_client_that_waits_as_told_gets_its_quota() -> None:
    clock = Clock()
    manager = ClientQuotaManager(QuotaTable(1_000_000), clock.seconds)
    sent = 0
    # Thirty turns of all windows: the first burst comes back, ever weaker, when its window is forgotten.
    while clock.seconds() < 330:
        seconds = manager.record("u", "c", 20_000)
        sent += 20_000
        # Throttle times are sent in milliseconds; the client takes a millisecond for each request.
        clock.advance(round(seconds, 3) + 0.001)
    assert sent == pytest.approx(330_000_000, rel=0.05)
    assert manager.throttled
    assert manager.throttled_seconds


def test_clients_without_a_quota_leave_nothing_behind() -> None:
    manager = ClientQuotaManager(QuotaTable(), Clock().seconds)
    assert not manager.is_active
    assert manager.record("u", None, 10**9) == 0
    assert len(manager) == 0


def test_idle_clients_are_forgotten() -> None:
    clock = Clock()
    manager = ClientQuotaManager(QuotaTable(1), clock.seconds)
    manager.record("u", "a", 1)
    clock.advance(11)
    manager.record("u", "b", 1)
    assert len(manager) == 1


def test_the_number_of_clients_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quota_manager, "MOST_CLIENTS", 5)
    manager = ClientQuotaManager(QuotaTable(1), Clock().seconds)
    for number in range(20):
        manager.record("u", str(number), 1)
    assert len(manager) == 5
