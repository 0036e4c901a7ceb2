"""Rights on copies."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.admin.admin_client import AdminClient
from logbus.mirror.acl_rules import copied_acls
from logbus.security.acl.acls import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from tests.mirror.kit import MirrorCase

ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY


def acl(
    name: str,
    operation: AclOperation,
    permission: AclPermission = ALLOW,
    pattern_type: PatternType = PatternType.LITERAL,
) -> AclBinding:
    """An ACL of alice's."""
    pattern = ResourcePattern(ResourceType.TOPIC, name, pattern_type)
    return AclBinding(pattern, AccessControlEntry("User:alice", "*", operation, permission))


class RuleTests(SynchronousTestCase):
    """Which ACLs copies have."""

    def test_prefix(self) -> None:
        """Who may read a topic may read its copy, and nobody may write to it; what is denied is denied."""
        theirs = [
            acl("orders", AclOperation.READ),
            acl("orders", AclOperation.WRITE),
            acl("orders", AclOperation.WRITE, DENY),
            acl("bills", AclOperation.ALL),
            acl("other", AclOperation.READ),
            acl("orders", AclOperation.READ, pattern_type=PatternType.PREFIXED),
        ]
        found = copied_acls(theirs, {"orders": "a.orders", "bills": "a.bills"})
        self.assertEqual(
            found,
            {
                acl("a.orders", AclOperation.READ),
                acl("a.orders", AclOperation.WRITE, DENY),
                acl("a.bills", AclOperation.READ),
            },
        )

    def test_identity(self) -> None:
        """A copy of the same name has the same ACLs, for the move of its producers."""
        theirs = {acl("orders", AclOperation.WRITE), acl("orders", AclOperation.ALL)}
        self.assertEqual(copied_acls(theirs, {"orders": "orders"}), theirs)


class MirrorTests(MirrorCase):
    """ACLs between clusters."""

    def test_copied(self) -> None:
        """ACLs arrive with the topic."""
        secured = {
            "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super_users": "User:ANONYMOUS",
        }
        self.cluster("a", **secured)
        self.cluster("b", **secured)
        self.create("a", "orders")
        source, target = AdminClient(self.clients["a"]), AdminClient(self.clients["b"])
        self.result(source.create_acls([acl("orders", AclOperation.READ)]))
        self.mirror_all("a", "b", sync_acls=True)
        self.assertEqual(self.result(target.describe_acls()), [acl("a.orders", AclOperation.READ)])

    def test_without_an_authorizer(self) -> None:
        """Where there are no ACLs that is said, and records are copied."""
        self.cluster("a")
        self.cluster("b")
        self.create("a", "orders")
        self.send("a", "orders", [b"x"])
        mirror = self.mirror_all("a", "b", sync_acls=True)
        self.assertEqual(self.values("b", "a.orders"), [b"x"])
        self.assertEqual(sum("ACLs are not copied" in each for each in mirror.lines), 1)
