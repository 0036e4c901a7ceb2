"""Tests of :mod:`logbus.registry.rights`."""

from __future__ import annotations

import json

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.authorization import HttpAuthorization
from logbus.net.connection_limits import WarningLimiter
from logbus.registry.errors import Code, RegistryRefusal
from logbus.registry.requests import RegistryRequest
from logbus.registry.rights import check_rights
from logbus.security.acl.acls import AclOperation, ResourceType

READS = [
    ("GET", "schemas"),
    ("GET", "schemas/ids/1"),
    ("GET", "subjects"),
    ("GET", "subjects/orders-value/versions/1"),
    ("POST", "subjects/orders-value"),
    ("POST", "compatibility/subjects/orders-value/versions/latest"),
    ("GET", "config"),
    ("GET", "mode/orders-value"),
]
WRITES = [
    ("POST", "subjects/orders-value/versions"),
    ("DELETE", "subjects/orders-value"),
    ("DELETE", "subjects/orders-value/versions/1"),
    ("PUT", "config"),
    ("PUT", "config/orders-value"),
    ("DELETE", "mode/orders-value"),
    ("PUT", "anything/else"),
]


class RightsTests(SynchronousTestCase):
    """What may be asked with which rights."""

    def setUp(self) -> None:
        self.rights: set[tuple[AclOperation, str]] = set()

    def authorize(self, principal: str, host: str, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """As an authorizer."""
        return kind is ResourceType.TOPIC and (operation, name) in self.rights

    def may(self, method: str, path: str, body: bytes = b"{}") -> bool:
        authorization = HttpAuthorization("admin", self, WarningLimiter(Clock().seconds))  # type: ignore[arg-type]
        access = authorization.access("User:alice", "127.0.0.1", "")
        try:
            check_rights(RegistryRequest(method, tuple(path.split("/")), body=body), access)
        except RegistryRefusal as e:
            self.assertEqual((e.code, e.status), (Code.FORBIDDEN, 403))
            return False
        return True

    def test_nothing(self) -> None:
        """Without rights there is only what says nothing of the schemas."""
        for each in READS + WRITES:
            self.assertFalse(self.may(*each), each)
        for path in ("", "v1/metadata/id", "contexts"):
            self.assertTrue(self.may("GET", path), path)

    def test_readers(self) -> None:
        """Describe on the topic of the schemas is for reading."""
        self.rights.add((AclOperation.DESCRIBE, "_schemas"))
        self.assertEqual([self.may(*each) for each in READS + WRITES], [True] * len(READS) + [False] * len(WRITES))

    def test_administrators(self) -> None:
        """Alter on it is for changes of any kind."""
        self.rights.add((AclOperation.ALTER, "_schemas"))
        self.assertEqual([self.may(*each) for each in WRITES], [True] * len(WRITES))

    def test_producers(self) -> None:
        """Who writes to a topic registers the schemas of its keys and values, and changes nothing else."""
        self.rights.add((AclOperation.WRITE, "orders"))
        self.assertTrue(self.may("POST", "subjects/orders-key/versions"))
        self.assertEqual([self.may(*each) for each in WRITES], [True] + [False] * (len(WRITES) - 1))
        for subject in ("orders", "orders-other", "other-value", "-value", "orders-value-value", "orders-key-value"):
            self.assertFalse(self.may("POST", f"subjects/{subject}/versions"), subject)

    def test_references(self) -> None:
        """Who may register by the right to one topic learns nothing of the subjects of others."""

        def may_refer(*subjects: object) -> bool:
            references = [{"name": "n", "subject": subject, "version": 1} for subject in subjects]
            body = json.dumps({"schema": "{}", "references": references}).encode()
            return self.may("POST", "subjects/orders-value/versions", body)

        self.rights.add((AclOperation.WRITE, "orders"))
        self.assertTrue(may_refer())
        self.assertTrue(may_refer("orders-key"))
        for subjects in (("secret-value",), ("orders-key", "secret-value"), ("Address",), (5,)):
            self.assertFalse(may_refer(*subjects), subjects)
        self.rights.add((AclOperation.WRITE, "secret"))
        self.assertTrue(may_refer("orders-key", "secret-value"))
        self.assertFalse(may_refer("Address"))
        self.rights.add((AclOperation.DESCRIBE, "_schemas"))
        self.assertTrue(may_refer("Address"))
        for references in (5, [5], [{}], None, {"subject": "secret-value"}):
            # Refused when it is handled.
            body = json.dumps({"references": references}).encode()
            self.assertTrue(self.may("POST", "subjects/orders-value/versions", body))
