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
        added = self.put("bob", {"password": "s3cret-Ü"})
        self.assertEqual((added.status, added.headers["Location"]), (201, f"{USERS}/bob"))
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

    def test_two_people(self) -> None:
        """Of two people who change a user's password or delete the user, the second is told."""
        self.put("a%2Fb", {"password": "one", "mechanisms": ["SCRAM-SHA-256"]})
        seen = self.http.ask("GET", f"{USERS}/a%2Fb")
        self.assertEqual(seen.json["name"], "a/b")
        tag = {"If-Match": seen.headers["ETag"]}
        one = {"password": "one", "mechanisms": ["SCRAM-SHA-256"]}
        self.assertEqual(self.http.ask("PUT", f"{USERS}/a%2Fb", one, tag).status, 204)
        for method, body in (("PUT", one), ("DELETE", None)):
            second = self.http.ask(method, f"{USERS}/a%2Fb", body, tag)
            self.assertEqual(second.status, 412, method)
            self.assertIn("SCRAM-SHA-256", second.json["detail"])
        now = self.http.ask("GET", f"{USERS}/a%2Fb").headers["ETag"]
        self.assertEqual(self.http.ask("DELETE", f"{USERS}/a%2Fb", None, {"If-Match": now}).status, 204)
        self.assertEqual(self.http.ask("GET", f"{USERS}/a%2Fb").status, 404)

    def test_validate_only(self) -> None:
        """A user can be added and deleted on trial."""
        self.assertEqual(self.put("bob", {"password": "one", "validate_only": True}).status, 204)
        self.assertEqual(self.http.get(USERS)["total"], 0)
        self.put("bob", {"password": "one"})
        self.assertEqual(self.http.ask("DELETE", f"{USERS}/bob?validate_only=true").status, 204)
        self.assertEqual(self.http.get(USERS)["total"], 1)
        self.assertEqual(self.http.ask("DELETE", f"{USERS}/eve?validate_only=true").status, 404)

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
