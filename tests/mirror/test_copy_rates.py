"""Tests of :mod:`logbus.mirror.copy_rates`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logbus.mirror.copy_rates import SLOT_SECONDS, SLOTS, CopyRates
from logbus.model import TopicPartition

MINUTE = SLOT_SECONDS * SLOTS
A, B = TopicPartition("a", 0), TopicPartition("b", 1)


@given(st.floats(0, 1e9), st.integers(1, 1000))
def test_steady(began: float, count: int) -> None:
    """What comes steadily has its rate, also over long times; what is kept does not grow."""
    rates = CopyRates()
    for second in range(300):
        rates.add(began + second, {A: count, B: 2 * count}, 10 * count)
    now = began + 300
    found = rates.records(now)
    assert abs(found[A] - count) <= count * 0.1
    assert found[B] == 2 * found[A]
    assert abs(rates.bytes(now) - 10 * count) <= count
    assert len(rates._slots) <= SLOTS


def test_nothing() -> None:
    """Before the first records, and a minute after the last ones, the rates are nothing."""
    rates = CopyRates()
    assert (dict(rates.records(5.0)), rates.bytes(5.0)) == ({}, 0.0)
    rates.add(7.0, {A: 50}, 500)
    assert rates.records(10.0) == {A: 10.0}
    assert (dict(rates.records(7.0 + MINUTE)), rates.bytes(7.0 + MINUTE)) == ({}, 0.0)
