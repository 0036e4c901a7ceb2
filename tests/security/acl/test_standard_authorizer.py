"""logbus.security.acl.standard_authorizer: decides as the rules say, however it finds the ACLs."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from logbus.security.acl.acls import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from logbus.security.acl.iauthorizer import IAuthorizer
from logbus.security.acl.standard_authorizer import StandardAuthorizer

Op, Kind = AclOperation, ResourceType
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
PREFIXED = PatternType.PREFIXED

NAMES = st.sampled_from(["*", "a", "ab", "abc", "b", "ba"])
PRINCIPALS = st.sampled_from(["User:x", "User:y", "User:*"])
HOSTS = st.sampled_from(["*", "10.0.0.1", "10.0.0.2"])
OPERATIONS = st.sampled_from([Op.ALL, Op.READ, Op.WRITE, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS, Op.CREATE])
PATTERNS = st.builds(
    ResourcePattern,
    st.sampled_from([Kind.TOPIC, Kind.GROUP]),
    NAMES,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
ENTRIES = st.builds(AccessControlEntry, PRINCIPALS, HOSTS, OPERATIONS, st.sampled_from([ALLOW, DENY]))
BINDINGS = st.builds(AclBinding, PATTERNS, ENTRIES)
WHO = st.tuples(st.sampled_from(["User:x", "User:y", "User:root"]), st.sampled_from(["10.0.0.1", "10.0.0.3"]))
ASKED = OPERATIONS.filter(lambda op: op is not Op.ALL)
RESOURCES = st.tuples(st.sampled_from([Kind.TOPIC, Kind.GROUP]), st.sampled_from(["a", "ab", "abc", "abd", "b", "c"]))


def grouped(bindings: Iterable[AclBinding]) -> dict[ResourcePattern, tuple[AccessControlEntry, ...]]:
    """The entries of each pattern."""
    found: dict[ResourcePattern, tuple[AccessControlEntry, ...]] = {}
    for pattern, entry in bindings:
        if entry not in found.get(pattern, ()):
            found[pattern] = (*found.get(pattern, ()), entry)
    return found


def naive(
    bindings: Iterable[AclBinding], who: tuple[str, str], op: AclOperation, kind: ResourceType, name: str, default: bool
) -> bool:
    """The rules as Kafka's documentation states them, over a list."""
    if who[0] == "User:root":
        return True
    covering = [each for each in bindings if each.pattern.resource_type is kind and each.pattern.covers(name)]
    if not covering:
        return default
    mine = [entry for _, entry in covering if entry.principal in (who[0], "User:*") and entry.host in (who[1], "*")]
    if any(each.permission is DENY and each.operation in (op, Op.ALL) for each in mine):
        return False
    implied = {
        Op.DESCRIBE: {Op.READ, Op.WRITE, Op.DELETE, Op.ALTER},
        Op.DESCRIBE_CONFIGS: {Op.ALTER_CONFIGS},
    }.get(op, set())
    return any(each.permission is ALLOW and each.operation in {op, Op.ALL, *implied} for each in mine)


class Decisions(SynchronousTestCase):
    """What is allowed."""

    def test_interface(self) -> None:
        """It is an authorizer."""
        self.assertTrue(verifyObject(IAuthorizer, StandardAuthorizer()))

    @given(
        st.lists(BINDINGS, max_size=12),
        st.lists(BINDINGS, max_size=4),
        st.booleans(),
        st.lists(st.tuples(WHO, ASKED, RESOURCES), min_size=1, max_size=8),
    )
    def test_rules(
        self,
        first: list[AclBinding],
        later: list[AclBinding],
        default: bool,
        asked: list[tuple[tuple[str, str], AclOperation, tuple[ResourceType, str]]],
    ) -> None:
        """As by the naive reading of the rules, also when asked again, and after a change."""
        authorizer = StandardAuthorizer(frozenset({"User:root"}), default)
        before = grouped(first)
        authorizer.set_acls(before.items())
        after = grouped(later)
        steps = [before, after, after]
        for known in steps:
            if known is after:
                authorizer.set_acls([(pattern, ()) for pattern in before.keys() - after.keys()])
                authorizer.set_acls(after.items())
            bindings = [AclBinding(pattern, each) for pattern, entries in known.items() for each in entries]
            for who, op, (kind, name) in asked * 2:
                self.assertEqual(
                    authorizer.authorize(*who, op, kind, name), naive(bindings, who, op, kind, name, default)
                )

    @given(st.lists(BINDINGS, max_size=8), WHO)
    def test_some_resource(self, bindings: list[AclBinding], who: tuple[str, str]) -> None:
        """Who may write to a topic of these names, or one longer than all, may write to some topic."""
        authorizer = StandardAuthorizer(frozenset({"User:root"}))
        authorizer.set_acls(grouped(bindings).items())
        names = {end for each in bindings for end in (each.pattern.name, f"{each.pattern.name}zz")} - {"*"}
        # A name that no pattern but the wildcard and its own prefix covers.
        names |= {"zz"}
        some = any(authorizer.authorize(*who, Op.WRITE, Kind.TOPIC, name) for name in names)
        decision = authorizer.authorize_by_resource_type(*who, Op.WRITE, Kind.TOPIC)
        self.assertEqual(decision, some)
        self.assertEqual(authorizer.authorize_by_resource_type(*who, Op.WRITE, Kind.TOPIC), decision)

    def test_some_resource_if_no_acl(self) -> None:
        """Everyone may write somewhere, unless all is denied."""
        authorizer = StandardAuthorizer(allow_if_no_acl=True)
        asked = ("User:x", "h", Op.WRITE, Kind.TOPIC)
        self.assertTrue(authorizer.authorize_by_resource_type(*asked))
        everything = ResourcePattern(Kind.TOPIC, "*")
        authorizer.set_acls([(everything, (AccessControlEntry("User:x", "*", Op.ALL, DENY),))])
        self.assertFalse(authorizer.authorize_by_resource_type(*asked))

    def test_one_address_written_in_several_ways(self) -> None:
        """An ACL of another spelling applies as well: Kafka's are Java's, without ``::``."""
        for spelled, host in (
            ("2001:db8:0:0:0:0:0:5", "2001:db8::5"),
            ("2001:DB8::5", "2001:db8::5"),
            ("::ffff:10.0.0.5", "10.0.0.5"),
        ):
            authorizer = StandardAuthorizer(allow_if_no_acl=True)
            entries = (
                AccessControlEntry("User:*", spelled, Op.ALL, DENY),
                AccessControlEntry("User:*", "*", Op.ALL, ALLOW),
            )
            authorizer.set_acls([(ResourcePattern(Kind.TOPIC, "t"), entries)])
            self.assertFalse(authorizer.authorize("User:x", host, Op.READ, Kind.TOPIC, "t"), spelled)
            self.assertTrue(authorizer.authorize("User:x", "2001:db8::6", Op.READ, Kind.TOPIC, "t"), spelled)

    def test_version(self) -> None:
        """It grows with each change, so that others may remember decisions, too."""
        authorizer = StandardAuthorizer()
        before = authorizer.version
        authorizer.set_acls([])
        self.assertGreater(authorizer.version, before)

    def test_memory_is_bounded(self) -> None:
        """Asking for ever new names does not fill the memory."""
        authorizer = StandardAuthorizer()
        self.patch(__import__("logbus.security.acl.standard_authorizer", fromlist=["x"]), "_MAX_REMEMBERED", 10)
        for number in range(100):
            authorizer.authorize("User:x", "h", Op.READ, Kind.TOPIC, str(number))
            self.assertLessEqual(len(authorizer._decisions), 10)
