"""Tests of the pages of ACLs and quotas, over a whole broker in memory."""

from __future__ import annotations

import re
import shlex
from urllib.parse import urlencode

from logbus.admin import quotas
from tests.admin.broker_kit import HttpBrokerCase
from tests.admin.harness import Answered
from tests.admin.test_acls import an_acl
from tests.cli.parsing import accepts
from tests.console.kit import SAME_ORIGIN, seen

SECTION = "/console/access"
SCRIPT = "<script>alert(1)</script>"


class AccessCase(HttpBrokerCase):
    """A broker that obeys ACLs."""

    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }

    def post(self, path: str, fields: dict[str, str]) -> Answered:
        return self.http.ask("POST", f"{SECTION}/{path}", urlencode(fields).encode(), SAME_ORIGIN)

    def text(self, path: str = SECTION) -> str:
        return seen(self.http.ask("GET", path)).text

    def command(self, answered: Answered) -> str:
        """The command that a page shows, which ``logbus`` accepts."""
        found = re.search(r"(logbus (?:acls|quotas) .*?) (?:logbus 0|API)", seen(answered).text)
        assert found is not None, seen(answered).text
        self.assertTrue(accepts(shlex.split(found[1])[1:]), found[1])
        return found[1]


class AclPagesTests(AccessCase):
    """ACLs."""

    def test_life_of_an_acl(self) -> None:
        """It is asked once, created, listed, found by a filter, and deleted."""
        self.assertIn("There is no ACL.", self.text())
        acl = an_acl(host="10.0.0.1")
        asked = self.post("new-acl", acl)
        self.assertIn("User:bob from 10.0.0.1 may Read on Topic orders-…", seen(asked).text)
        self.assertEqual(
            self.command(asked),
            "logbus acls add --allow-principal User:bob --operation Read --topic orders- "
            "--resource-pattern-type prefixed --allow-host 10.0.0.1",
        )
        self.assertEqual(self.http.get("/api/v1/acls")["total"], 0)
        self.assertEqual(self.post("new-acl", {**acl, "confirmed": "yes"}).status, 303)
        self.assertIn("Topic orders-… User:bob 10.0.0.1 allow Read", self.text())
        self.assertIn("No ACL fits.", self.text(f"{SECTION}?principal=User:nobody"))
        path = f"{SECTION}/delete-acl?{urlencode(acl)}"
        self.assertIn("logbus acls remove", self.text(path))
        self.assertEqual(self.http.get("/api/v1/acls")["total"], 1)
        self.assertEqual(self.post("delete-acl", {**acl, "confirmed": "yes"}).status, 303)
        self.assertEqual(self.http.get("/api/v1/acls")["total"], 0)
        # Somebody else was faster.
        self.assertEqual(self.post("delete-acl", {**acl, "confirmed": "yes"}).status, 404)

    def test_each_type_has_a_command(self) -> None:
        """The cluster has no name; the others have options of their own."""
        for kind in ("topic", "group", "cluster", "transactional_id", "user", "delegation_token"):
            acl = an_acl(
                resource_type=kind, resource_name="x", pattern_type="literal", operation="describe", permission="deny"
            )
            self.assertIn("--deny-principal User:bob", self.command(self.post("new-acl", acl)))

    def test_what_is_wrong(self) -> None:
        """It is told beside the field, which keeps what was typed."""
        for fields, told in (
            ({"principal": "bob"}, "of the form User:name"),
            ({"principal": ""}, "of the form User:name"),
            ({"resource_name": " "}, "Give the name"),
            ({"operation": "fly"}, "one of all"),
            ({"host": ""}, "Give an address"),
            ({"resource_type": SCRIPT}, "one of topic"),
        ):
            answered = self.post("new-acl", an_acl(**fields))
            self.assertEqual(answered.status, 400, fields)
            self.assertIn(told, seen(answered).text)
            self.assertNotIn(SCRIPT.encode(), answered.body)
        answered = self.post("new-acl", an_acl(principal=f"User:{SCRIPT}", host="", resource_name="y" * 3000))
        self.assertEqual(seen(answered).having("input", name="principal")[0]["value"], f"User:{SCRIPT}")
        self.assertEqual(self.http.ask("GET", f"{SECTION}/delete-acl?principal=x").status, 400)

    def test_what_kafka_refuses(self) -> None:
        """It is told above the form."""
        answered = self.post("new-acl", {**an_acl(principal="bob:"), "confirmed": "yes"})
        self.assertEqual(answered.status, 400)
        self.assertEqual(seen(answered).having("input", name="principal")[0]["value"], "bob:")


class QuotaPagesTests(AccessCase):
    """Quotas."""

    def test_life_of_a_quota(self) -> None:
        """It is set, listed, changed with its present values in the form, and removed."""
        self.assertIn("There is no quota", self.text())
        fields = {"user": "bob", "client_id_default": "yes", "producer_byte_rate": "1000"}
        asked = self.post("quotas", fields)
        self.assertEqual(
            self.command(asked), "logbus quotas set --user bob --client-id-default producer_byte_rate=1000"
        )
        self.assertEqual(self.http.get("/api/v1/quotas")["total"], 0)
        self.assertEqual(self.post("quotas", {**fields, "confirmed": "yes"}).status, 303)
        self.assertIn("user bob, every other client id producer_byte_rate=1000", self.text())
        form = seen(self.http.ask("GET", f"{SECTION}/quotas?user=bob&client_id_default=yes"))
        self.assertEqual(form.having("input", name="producer_byte_rate")[0]["value"], "1000")
        changed = {**fields, "producer_byte_rate": "", "request_percentage": "2.5"}
        self.assertIn("Two commands: logbus quotas set", seen(self.post("quotas", changed)).text)
        self.assertEqual(self.post("quotas", {**changed, "confirmed": "yes"}).status, 303)
        self.assertEqual(self.http.get("/api/v1/quotas")["items"][0]["quotas"], {"request_percentage": 2.5})
        removed = self.post("quotas", {**changed, "request_percentage": ""})
        self.assertEqual(
            self.command(removed), "logbus quotas delete --user bob --client-id-default request_percentage"
        )

    def test_one_of_many(self) -> None:
        """The form has the quotas of an entity that is behind those that are listed, and can remove them."""
        self.patch(quotas, "MAX_ENTITIES", 2)
        for name in ("ann", "bob", "eve"):
            self.assertEqual(
                self.post("quotas", {"user": name, "producer_byte_rate": "7", "confirmed": "yes"}).status, 303
            )
        listed = [each["entity"]["user"] for each in self.http.get("/api/v1/quotas")["items"]]
        (last,) = {"ann", "bob", "eve"} - {*listed}
        form = seen(self.http.ask("GET", f"{SECTION}/quotas?user={last}"))
        self.assertEqual(form.having("input", name="producer_byte_rate")[0]["value"], "7")
        self.assertEqual(self.post("quotas", {"user": last, "confirmed": "yes"}).status, 303)
        self.assertEqual(self.http.get("/api/v1/quotas")["total"], 2)

    def test_two_people(self) -> None:
        """The form of one who saw other quotas sets none."""
        bob = {"user": "bob", "confirmed": "yes"}
        self.assertEqual(self.post("quotas", {**bob, "producer_byte_rate": "1000"}).status, 303)
        form = seen(self.http.ask("GET", f"{SECTION}/quotas?user=bob"))
        mine = {**bob, "seen": form.having("input", name="seen")[0]["value"] or "", "producer_byte_rate": "5"}
        self.assertEqual(self.post("quotas", {**bob, "request_percentage": "9"}).status, 303)
        answered = self.post("quotas", mine)
        self.assertEqual(answered.status, 409)
        page = seen(answered)
        self.assertIn("Somebody has changed these quotas", page.text)
        self.assertIn("Percent of a processor's time 9", page.text)
        self.assertEqual(page.having("input", name="producer_byte_rate")[0]["value"], "5")
        self.assertEqual(self.http.get("/api/v1/quotas")["items"][0]["quotas"], {"request_percentage": 9})
        again = {**mine, "seen": page.having("input", name="seen")[0]["value"] or ""}
        self.assertEqual(self.post("quotas", again).status, 303)
        self.assertEqual(self.http.get("/api/v1/quotas")["items"][0]["quotas"], {"producer_byte_rate": 5})

    def test_what_is_wrong(self) -> None:
        """It is told on the form, before anything is asked or changed."""
        for fields, told in (
            ({}, "Name a user"),
            ({"user": "bob", "producer_byte_rate": "fast"}, "must be a number"),
            ({"user": "bob", "producer_byte_rate": "nan"}, "must be a number"),
            ({"user": "bob", "producer_byte_rate": "-1"}, "producer_byte_rate"),
            ({"user": "bob", "ip": "10.0.0.1", "producer_byte_rate": "1"}, ""),
            ({"user": "bob"}, "These are the quotas that it has."),
            ({"user": SCRIPT, "producer_byte_rate": "1e999"}, "must be a number"),
        ):
            answered = self.post("quotas", fields)
            self.assertEqual(answered.status, 400, fields)
            self.assertIn(told, seen(answered).text)
            self.assertNotIn(SCRIPT.encode(), answered.body)


class UserPagesTests(AccessCase):
    """Users."""

    def test_life_of_a_user(self) -> None:
        """Added by a password that is typed twice, listed, and deleted when the name is typed."""
        self.assertIn("There is no user", self.text())
        fields = {"user": "bob", "password": "s3cret", "again": "s3cret"}
        self.assertEqual(self.post("password", fields).status, 303)
        self.assertIn("bob SCRAM-SHA-256, SCRAM-SHA-512", self.text())
        asked = self.text(f"{SECTION}/delete-user?user=bob")
        self.assertIn("logbus users delete bob", asked)
        typed = {"user": "bob", "confirmed": "yes", "typed_name": "bo"}
        self.assertEqual(self.post("delete-user", typed).status, 400)
        self.assertEqual(self.post("delete-user", {**typed, "typed_name": "bob"}).status, 303)
        self.assertEqual(self.http.get("/api/v1/users")["total"], 0)
        self.assertEqual(self.post("delete-user", {**typed, "typed_name": "bob"}).status, 404)
        self.assertEqual(self.post("delete-user", {}).status, 400)

    def test_what_is_wrong(self) -> None:
        """It is told beside its field; no page has the password."""
        for fields, told in (
            ({"password": "s3cret", "again": "s3cret"}, "Give the user's name."),
            ({"user": SCRIPT}, "Give a password."),
            ({"user": "bob", "password": "s3cret", "again": "s3creT"}, "not the same password"),
            ({"user": "b" * 2000, "password": "s3cret", "again": "s3cret"}, "1000"),
        ):
            answered = self.post("password", fields)
            self.assertEqual(answered.status, 400, fields)
            self.assertIn(told, seen(answered).text)
            self.assertNotIn(b"s3cret", answered.body)
            self.assertNotIn(SCRIPT.encode(), answered.body)


class WithoutAclsTests(HttpBrokerCase):
    """A broker that obeys no ACLs."""

    def test_it_is_told(self) -> None:
        """The page says why there are none, and how there would be some; quotas are there."""
        text = seen(self.http.ask("GET", SECTION)).text
        self.assertIn("Everybody may do everything", text)
        self.assertIn("authorizer.class.name", text)
        self.assertIn("There is no quota", text)
