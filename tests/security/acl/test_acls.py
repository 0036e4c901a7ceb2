"""logbus.security.acl.acls: ACLs, filters, and what cannot be stored."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.security.acl.acls import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)

ENTRY = AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermission.ALLOW)
TOPIC = ResourcePattern(ResourceType.TOPIC, "orders")


class EnumTests(SynchronousTestCase):
    """Names of enumerations."""

    def test_titles(self) -> None:
        """As in Kafka's JSON; read in any spelling."""
        self.assertEqual(AclOperation.DESCRIBE_CONFIGS.title, "DescribeConfigs")
        for text in ("DescribeConfigs", "DESCRIBE_CONFIGS", "describe-configs"):
            self.assertIs(AclOperation.of_title(text), AclOperation.DESCRIBE_CONFIGS)
        self.assertEqual(ResourceType.TRANSACTIONAL_ID.title, "TransactionalId")

    def test_unknown(self) -> None:
        """Names what there is, but for what only filters have."""
        error = self.assertRaises(ValueError, PatternType.of_title, "suffixed")
        self.assertEqual(str(error), "'suffixed' is none of Literal, Prefixed")


class CheckTests(SynchronousTestCase):
    """What cannot be stored is refused by name."""

    def test_good(self) -> None:
        """An ACL as it should be."""
        AclBinding(TOPIC, ENTRY).check()

    def test_bad(self) -> None:
        """One thing wrong at a time."""
        for binding, words in [
            (AclBinding(TOPIC._replace(resource_type=ResourceType.ANY), ENTRY), "one type of resource, not Any"),
            (AclBinding(TOPIC._replace(pattern_type=PatternType.MATCH), ENTRY), "Literal or Prefixed, not Match"),
            (AclBinding(TOPIC._replace(name=""), ENTRY), "name of the resource is empty"),
            (AclBinding(ResourcePattern(ResourceType.CLUSTER, "x"), ENTRY), "is kafka-cluster, not 'x'"),
            (AclBinding(TOPIC, ENTRY._replace(operation=AclOperation.ANY)), "one operation or All, not Any"),
            (AclBinding(TOPIC, ENTRY._replace(permission=AclPermission.ANY)), "its permission is not Any"),
            (AclBinding(TOPIC, ENTRY._replace(principal="alice")), "'alice' is not such as User:alice"),
            (AclBinding(TOPIC, ENTRY._replace(principal="User:")), "'User:' is not such as User:alice"),
            (AclBinding(TOPIC, ENTRY._replace(host="")), "host is empty"),
        ]:
            self.assertIn(words, str(self.assertRaises(ValueError, binding.check)))

    def test_filter(self) -> None:
        """A filter by something unknown selects nothing by chance."""
        AclBindingFilter().check()
        wrong = AclBindingFilter(operation=AclOperation.UNKNOWN)
        self.assertIn("AclOperation is unknown", str(self.assertRaises(ValueError, wrong.check)))


class FilterTests(SynchronousTestCase):
    """Which patterns a filter selects: as ResourcePatternFilter."""

    def test_patterns(self) -> None:
        """By pattern type: exactly these, any, or those that apply to a name."""
        wildcard = TOPIC._replace(name="*")
        prefix = ResourcePattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED)
        for pattern_type, name, selected in [
            (PatternType.LITERAL, "orders", [TOPIC]),
            (PatternType.LITERAL, "*", [wildcard]),
            (PatternType.PREFIXED, "ord", [prefix]),
            (PatternType.PREFIXED, "orders", []),
            (PatternType.ANY, "ord", [prefix]),
            (PatternType.MATCH, "orders", [TOPIC, wildcard, prefix]),
            (PatternType.MATCH, "or", [wildcard]),
            (PatternType.ANY, None, [TOPIC, wildcard, prefix]),
        ]:
            wanted = AclBindingFilter(ResourceType.TOPIC, name, pattern_type)
            self.assertEqual([each for each in (TOPIC, wildcard, prefix) if wanted.matches_pattern(each)], selected)
        self.assertFalse(AclBindingFilter(ResourceType.GROUP).matches_pattern(TOPIC))

    def test_entries(self) -> None:
        """By each field that is given."""
        self.assertTrue(AclBindingFilter().matches_entry(ENTRY))
        for wrong in (
            AclBindingFilter(principal="User:bob"),
            AclBindingFilter(host="10.0.0.1"),
            AclBindingFilter(operation=AclOperation.WRITE),
            AclBindingFilter(permission=AclPermission.DENY),
        ):
            self.assertFalse(wrong.matches_entry(ENTRY))
