"""Quotas of partitions that are created and deleted."""

from __future__ import annotations

import pytest

from logbus.errors import ApiError, ErrorCode
from logbus.quotas.client_quota_manager import ClientQuotaManager
from logbus.quotas.controller_mutation_quota import ControllerMutationQuota
from logbus.quotas.quota_table import QuotaTable


class Changes:
    """Changes of one user, at two partitions a second with a burst of three seconds."""

    def __init__(self) -> None:
        self.now, self.waits = 0.0, list[float]()
        table = QuotaTable()
        table.set({"user": "u"}, 2.0)
        self.quotas = ClientQuotaManager(table, lambda: self.now, 3, 1, self.waits.append, in_bursts=True)

    def request(self, *partitions: int, strict: bool = True, user: str = "u") -> tuple[list[bool], int]:
        """Which changes of a request are made, and the throttle time."""
        quota, made = ControllerMutationQuota(self.quotas, user, "c", strict), []
        for count in partitions:
            try:
                quota.take(count)
                made.append(True)
            except ApiError as e:
                assert e.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
                assert "controller_mutation_rate" in e.message
                made.append(False)
        return made, quota.throttle_time_ms


def test_strict() -> None:
    """While something is left of the burst a change of any size is made; then all are refused, until it is paid."""
    changes = Changes()
    assert changes.request(4, 12, 1) == ([True, True, False], 5000)
    assert changes.request(1) == ([False], 5000)
    changes.now = 4.5
    assert changes.request(1) == ([False], 500)
    changes.now = 5.0
    assert changes.request(1, 1) == ([True, False], 500)


def test_permissive() -> None:
    """Clients that do not know the error are served, and wait."""
    changes = Changes()
    assert changes.request(6, strict=False) == ([True], 0)
    assert changes.request(2, 2, strict=False) == ([True, True], 2000)
    assert changes.waits


def test_rate() -> None:
    """Over a long time a client gets its quota, and one burst."""
    changes, made = Changes(), 0
    for tick in range(3000):
        changes.now = tick / 100
        made += sum(changes.request(1)[0])
    assert made == pytest.approx(2 * 30 + 6, abs=2)


def test_others() -> None:
    """Who has no quota is never refused."""
    changes = Changes()
    assert changes.request(1000, 1000, user="other") == ([True, True], 0)
