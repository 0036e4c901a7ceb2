"""Tests of logbus.quotas.quota_table."""

from __future__ import annotations

import pytest

from logbus.quotas import quota_table
from logbus.quotas.quota_table import UNLIMITED, Quota, QuotaTable


def test_quotas_take_precedence_as_in_kafka() -> None:
    table = QuotaTable(1)
    assert table.find("u", "c") == Quota(1, (None, "c"))
    entities: list[tuple[dict[str, str | None], tuple[str | None, str | None]]] = [
        ({"client-id": None}, (None, "c")),
        ({"client-id": "c"}, (None, "c")),
        ({"user": None}, ("u", None)),
        ({"user": None, "client-id": None}, ("u", "c")),
        ({"user": None, "client-id": "c"}, ("u", "c")),
        ({"user": "u"}, ("u", None)),
        ({"user": "u", "client-id": None}, ("u", "c")),
        ({"user": "u", "client-id": "c"}, ("u", "c")),
    ]
    for value, (entity, shared_by) in enumerate(entities, 2):
        table.set(entity, value)
        assert table.find("u", "c") == Quota(value, shared_by)


def test_a_removed_quota_applies_to_nobody() -> None:
    table = QuotaTable()
    table.set({"user": "u"}, 5)
    table.set({"user": "u"}, None)
    assert table.is_empty
    assert table.find("u", "c") is None


def test_a_quota_without_a_limit_precedes_others() -> None:
    """As tools write it: Kafka's largest numbers."""
    table = QuotaTable(UNLIMITED)
    assert table.is_empty
    table.set({"user": None}, 5)
    table.set({"user": "u"}, UNLIMITED)
    assert table.find("u", "c") is None
    assert table.find("v", "c") == Quota(5, ("v", None))
    table.set({"user": "u"}, None)
    assert table.find("u", "c") == Quota(5, ("u", None))


def test_what_is_remembered_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_table, "MOST_FOUND", 3)
    table = QuotaTable(1)
    for number in range(10):
        assert table.find("u", str(number)) == Quota(1, (None, str(number)))
    assert len(table._found) <= 3
