"""Tests of logbus.quotas.measured_rate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logbus.quotas.measured_rate import MeasuredRate


def test_first_amount_is_measured_over_all_windows_but_one() -> None:
    rate = MeasuredRate(11, 1)
    rate.record(100, 5)
    assert rate.rate(5) == 10


def test_waits_until_the_rate_is_down_to_the_quota() -> None:
    rate = MeasuredRate(11, 1)
    rate.record(105, 0)
    assert rate.throttle_seconds(10, 0) == pytest.approx(0.5)
    assert rate.throttle_seconds(11, 0) == 0


def test_waits_for_all_windows_at_most_and_is_idle_then() -> None:
    rate = MeasuredRate(11, 1)
    rate.record(10**9, 0)
    assert rate.throttle_seconds(1, 0) == 11
    assert not rate.is_idle(10.9)
    assert rate.is_idle(11)
    assert rate.rate(11) == 0


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 1000))), st.integers(1, 12))
def test_measures_like_the_model(steps: list[tuple[int, int]], count: int) -> None:
    rate, now = MeasuredRate(count, 1), 0.0
    model: list[list[float]] = []
    for tenths, amount in steps:
        now += tenths / 8
        rate.record(amount, now)
        if model and now - model[-1][0] < 1:
            model[-1][1] += amount
        else:
            model.append([now, amount])
        kept = [window for window in model if window[0] > now - count][-count:]
        elapsed = max(count - 1 or 1, now - kept[0][0])
        assert rate.rate(now) == pytest.approx(sum(amount for _, amount in kept) / elapsed)
