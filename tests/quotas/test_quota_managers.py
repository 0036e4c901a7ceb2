"""Tests of logbus.quotas.quota_managers."""

from __future__ import annotations

import pytest

from logbus.quotas.quota_managers import QuotaManagers
from logbus.quotas.quota_table import UNLIMITED


@pytest.mark.parametrize(
    "name", ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"]
)
def test_requests_are_looked_at_while_somebody_has_a_quota(name: str) -> None:
    managers = QuotaManagers()
    assert not managers.is_active
    managers.set({"user": "a"}, {name: 1.0})
    assert managers.is_active
    managers.set({"user": "a"}, {"connection_creation_rate": 1.0})
    assert not managers.is_active
    managers.set({"user": "a"}, {name: UNLIMITED})
    assert not managers.is_active


def test_each_kind_has_its_quotas() -> None:
    managers = QuotaManagers()
    names = ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"]
    managers.set({"client-id": None}, {name: value for value, name in enumerate(names, 1)})
    kinds = [managers.produce, managers.fetch, managers.request, managers.controller_mutation]
    found = [each.quotas.find("u", "c") for each in kinds]
    assert [quota and quota.value for quota in found] == [1, 2, 3, 4]
