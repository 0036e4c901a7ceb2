"""Tests of :mod:`logbus.admin.acls`: ACLs of a whole broker over HTTP."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from tests.admin.broker_kit import HttpBrokerCase

ACLS = "/api/v1/acls"


def an_acl(**given: str) -> dict[str, str]:
    """An ACL."""
    return {
        "resource_type": "topic",
        "resource_name": "orders-",
        "pattern_type": "prefixed",
        "principal": "User:bob",
        "host": "*",
        "operation": "read",
        "permission": "allow",
        **given,
    }


class AclTests(HttpBrokerCase):
    """ACLs."""

    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }

    def create(self, *acls: Any) -> Any:
        return self.http.ask("POST", ACLS, {"items": list(acls)})

    def test_create_list_delete(self) -> None:
        """ACLs are created, found by what they are for, and deleted one by one."""
        literal = an_acl(resource_name="audit", pattern_type="literal", operation="write", permission="deny")
        answered = self.create(an_acl(), literal)
        self.assertEqual((answered.status, answered.json["items"]), (200, [{"error": ""}] * 2))
        listed = self.http.get(ACLS)
        self.assertEqual((listed["total"], listed["is_complete"]), (2, True))
        self.assertIn(an_acl(), listed["items"])
        self.assertEqual(self.http.get(f"{ACLS}?resource_name=audit")["items"], [literal])
        self.assertEqual(self.http.get(f"{ACLS}?resource_type=group")["items"], [])
        self.assertEqual(self.http.ask("DELETE", f"{ACLS}?{urlencode(literal)}").status, 204)
        self.assertEqual(self.http.ask("DELETE", f"{ACLS}?{urlencode(literal)}").status, 404)
        self.assertEqual(self.http.get(ACLS)["items"], [an_acl()])

    def test_validate_only(self) -> None:
        """ACLs can be created and deleted on trial."""
        tried = self.http.ask("POST", ACLS, {"items": [an_acl()], "validate_only": True})
        self.assertEqual((tried.status, tried.json["items"]), (200, [{"error": ""}]))
        self.assertEqual(self.http.get(ACLS)["total"], 0)
        refused = self.http.ask("POST", ACLS, {"items": [an_acl(principal="bob")], "validate_only": True})
        self.assertEqual(refused.status, 400)
        self.create(an_acl())
        target = f"{ACLS}?{urlencode(an_acl())}&validate_only=true"
        self.assertEqual(self.http.ask("DELETE", target).status, 204)
        self.assertEqual(self.http.get(ACLS)["total"], 1)
        self.assertEqual(self.http.ask("DELETE", target.replace("bob", "eve")).status, 404)

    def test_what_is_wrong(self) -> None:
        """Errors name what is wrong, and what would be right."""
        answered = self.create(an_acl(operation="fly"))
        self.assertEqual(answered.status, 400)
        self.assertIn("not one of", answered.json["detail"])
        answered = self.create(an_acl(principal="bob"))
        self.assertEqual(answered.status, 400, answered.body)
        answered = self.http.ask("DELETE", f"{ACLS}?principal=User:bob")
        self.assertIn("resource_type", answered.json["detail"])


class NoAuthorizerTests(HttpBrokerCase):
    """A broker without an authorizer."""

    def test_says_so(self) -> None:
        """It says what must be configured."""
        answered = self.http.ask("GET", ACLS)
        self.assertEqual((answered.status, answered.json["error"]), (400, "SECURITY_DISABLED"))
        self.assertIn("authorizer.class.name", answered.json["detail"])
