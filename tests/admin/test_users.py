"""Tests of :mod:`logbus.admin.users`: users of a whole broker over HTTP."""

from __future__ import annotations

from typing import Any

from tests.admin.broker_kit import HttpBrokerCase

USERS = "/api/v1/users"


class UserTests(HttpBrokerCase):
    """Users."""

    def put(self, user: str, body: Any) -> Any:
        return self.http.ask("PUT", f"{USERS}/{user}", body)

    def test_life_of_a_user(self) -> None:
        """Added, listed without anything of the password, changed and deleted."""
        self.assertEqual(self.http.get(USERS), {"items": [], "total": 0})
        self.assertEqual(self.put("bob", {"password": "s3cret-Ü"}).status, 204)
        both = [{"mechanism": "SCRAM-SHA-256", "iterations": 4096}, {"mechanism": "SCRAM-SHA-512", "iterations": 4096}]
        self.assertEqual(self.http.get(USERS)["items"], [{"name": "bob", "mechanisms": both}])
        again = {"password": "other", "mechanisms": ["SCRAM-SHA-512"], "iterations": 5000}
        self.assertEqual(self.put("bob", again).status, 204)
        self.assertEqual(self.http.get(USERS)["items"][0]["mechanisms"][1]["iterations"], 5000)
        self.assertEqual(self.http.ask("DELETE", f"{USERS}/bob").status, 204)
        self.assertEqual(self.http.get(USERS)["total"], 0)
        gone = self.http.ask("DELETE", f"{USERS}/bob")
        self.assertEqual(gone.status, 404)
        self.assertIn("bob", gone.json["detail"])

    def test_what_is_wrong(self) -> None:
        """Errors name what is wrong, and never the password."""
        for body, told in (
            ({}, "password"),
            ({"password": ""}, "password"),
            ({"password": "s3cret", "iterations": 1}, "4096"),
            ({"password": "s3cret", "mechanisms": ["PLAIN"]}, "SCRAM-SHA-256"),
            ({"password": "s3cret", "mechanisms": []}, "mechanisms"),
            ({"password": "s3cret\ud800"}, "surrogate"),
            ({"password": "s3cret", "mechanisms": ["SCRAM-SHA-256"] * 2}, "twice"),
            ({"password": "s3cret", "salt": "x"}, "salt"),
        ):
            answered = self.put("bob", body)
            self.assertEqual(answered.status, 400, answered.body)
            self.assertIn(told, answered.json["detail"])
            self.assertNotIn("s3cret", answered.json["detail"])
        self.assertEqual(self.http.get(USERS)["total"], 0)
