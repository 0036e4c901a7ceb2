"""Tests of :mod:`logbus.admin.quotas`: quotas of a whole broker over HTTP."""

from __future__ import annotations

from typing import Any

from tests.admin.broker_kit import HttpBrokerCase

QUOTAS = "/api/v1/quotas"


class QuotaTests(HttpBrokerCase):
    """Quotas."""

    def alter(self, entity: Any, quotas: Any, **more: Any) -> Any:
        return self.http.ask("PATCH", QUOTAS, {"entity": entity, "quotas": quotas, **more})

    def test_change_and_list(self) -> None:
        """Quotas are tried, set, listed and removed; null is the default of a type."""
        bob, quotas = {"user": "bob", "client_id": None}, {"producer_byte_rate": 1000.0}
        self.assertEqual(self.alter(bob, quotas, validate_only=True).status, 204)
        self.assertEqual(self.http.get(QUOTAS), {"items": [], "total": 0})
        self.assertEqual(self.alter(bob, quotas).status, 204)
        (row,) = self.http.get(QUOTAS)["items"]
        self.assertEqual((row["entity"], row["quotas"]), (bob, quotas))
        self.assertEqual(self.alter(bob, {"producer_byte_rate": None}).status, 204)
        self.assertEqual(self.http.get(QUOTAS)["items"], [])

    def test_filters(self) -> None:
        """Of many quotas those of one entity are found, or all that have a part of it."""
        entities: list[dict[str, str | None]] = [
            {"user": "bob"},
            {"user": None},
            {"user": "bob", "client_id": "c"},
            {"user": "bob", "client_id": None},
            {"client_id": "c"},
        ]
        for each in entities:
            self.assertEqual(self.alter(each, {"producer_byte_rate": 1}).status, 204)
        self.alter({"ip": None}, {"connection_creation_rate": 1})
        for query, found in [
            ("user=bob", [entities[0], entities[2], entities[3]]),
            ("user=bob&strict=true", [entities[0]]),
            ("user_default=true", [entities[1]]),
            ("user=bob&client_id_default=true", [entities[3]]),
            ("client_id=c", [entities[2], entities[4]]),
            ("ip_default=true", [{"ip": None}]),
            ("user=eve", []),
        ]:
            told = self.http.get(f"{QUOTAS}?{query}")
            self.assertCountEqual([row["entity"] for row in told["items"]], found, query)
            self.assertEqual(told["total"], len(found))
        for query in ("user=bob&user_default=true", "user=bob&ip=10.0.0.1", "user="):
            self.assertEqual(self.http.ask("GET", f"{QUOTAS}?{query}").status, 400)

    def test_two_people(self) -> None:
        """Of two people who change the quotas of one entity, the second is told which."""
        self.alter({"user": "bob"}, {"producer_byte_rate": 1000, "consumer_byte_rate": 5})
        self.alter({"user": "eve"}, {"producer_byte_rate": 1000})
        tag = next(row["etag"] for row in self.http.get(QUOTAS)["items"] if row["entity"] == {"user": "bob"})
        body = {"entity": {"user": "bob"}, "quotas": {"producer_byte_rate": None}}
        self.alter({"user": "eve"}, {"producer_byte_rate": 2000})
        self.assertEqual(self.http.ask("PATCH", QUOTAS, body, {"If-Match": tag}).status, 204)
        second = self.http.ask("PATCH", QUOTAS, body, {"If-Match": tag})
        self.assertEqual(second.status, 412)
        self.assertIn(
            "user bob may use has changed since it had the tag in If-Match: producer_byte_rate.", second.json["detail"]
        )
        self.assertEqual(self.http.ask("PATCH", QUOTAS, body, {"If-Match": second.headers["ETag"]}).status, 204)

    def test_what_is_wrong(self) -> None:
        """Errors name what is wrong."""
        for entity, quotas, told in [
            ({}, {}, "user or client_id or ip"),
            ({"user": "bob"}, {"speed": 1}, "speed"),
            ({"user": "bob"}, {"producer_byte_rate": -1}, "producer_byte_rate"),
            ({"user": "bob", "ip": "10.0.0.1"}, {"connection_creation_rate": 1}, ""),
        ]:
            answered = self.alter(entity, quotas)
            self.assertEqual(answered.status, 400, answered.body)
            self.assertIn(told, answered.json["detail"])
