"""Tests of logbus.quotas.leaky_bucket."""

from __future__ import annotations

from logbus.quotas.leaky_bucket import LeakyBucket


def test_the_level_rises_by_what_is_taken_and_falls_by_the_quota() -> None:
    bucket = LeakyBucket(0)
    assert bucket.add(30, 10, 0) == 3
    assert bucket.add(0, 10, 1) == 2
    assert bucket.add(10, 5, 2) == 5


def test_an_unused_quota_is_not_saved() -> None:
    bucket = LeakyBucket(0)
    assert bucket.add(10, 10, 100) == 1


def test_what_is_above_a_level_is_forgiven() -> None:
    bucket = LeakyBucket(0)
    bucket.add(100, 10, 0)
    bucket.cap(50)
    bucket.cap(70)
    assert bucket.level == 50
