"""Values of quotas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logbus.config.client_quotas import (
    CLIENT_QUOTAS,
    CONNECTION_CREATION_RATE,
    IP_QUOTAS,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    quotas_of,
)
from logbus.errors import ConfigError


@given(st.integers(1, 2**53))
def test_whole_numbers(value: int) -> None:
    """Bytes a second are stored as whole numbers, as Kafka stores them."""
    assert PRODUCER_BYTE_RATE.text(float(value)) == str(value)
    assert PRODUCER_BYTE_RATE.value(str(value)) == value


@given(st.floats(1e-9, 1e12))
def test_fractions(value: float) -> None:
    """A percentage may be a fraction, and comes back as it was."""
    assert REQUEST_PERCENTAGE.value(REQUEST_PERCENTAGE.text(value)) == value


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("quota", [*CLIENT_QUOTAS.values(), *IP_QUOTAS.values()])
def test_not_positive(quota: object, value: float) -> None:
    """Each quota refuses what is not a positive number, and says its name."""
    with pytest.raises(ConfigError, match="must be more than 0"):
        quota.text(value)  # type: ignore[attr-defined]


def test_too_much() -> None:
    """Whole numbers have Kafka's ranges."""
    assert CONNECTION_CREATION_RATE.text(2.0**31 - 1) == str(2**31 - 1)
    for quota, value in ((CONNECTION_CREATION_RATE, 2.0**31), (PRODUCER_BYTE_RATE, 2.0**63), (PRODUCER_BYTE_RATE, 0.5)):
        with pytest.raises(ConfigError, match="whole number"):
            quota.text(value)


def test_among_settings() -> None:
    """Credentials are no quotas, and neither is what somebody else stored and cannot be read."""
    settings = {
        "SCRAM-SHA-256": "salt=",
        "producer_byte_rate": "10.0",
        "consumer_byte_rate": "x",
        "request_percentage": "-1",
    }
    assert quotas_of(settings) == {"producer_byte_rate": 10.0}
