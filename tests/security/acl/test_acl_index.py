"""logbus.security.acl.acl_index: patterns that come and go."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.security.acl.acl_index import AclIndex, Entries
from logbus.security.acl.acls import AclBinding, AclBindingFilter, PatternType, ResourcePattern, ResourceType
from tests.security.acl.test_standard_authorizer import ENTRIES, PATTERNS


class ModelTests(SynchronousTestCase):
    """Against a dictionary that is searched from end to end."""

    @given(st.lists(st.tuples(PATTERNS, st.lists(ENTRIES, max_size=2).map(tuple)), max_size=20))
    def test_changes(self, changes: list[tuple[ResourcePattern, Entries]]) -> None:
        """What was set last holds."""
        index, model = AclIndex(), dict[ResourcePattern, Entries]()
        for pattern, entries in changes:
            index.set(pattern, entries)
            model[pattern] = entries
        kept = {pattern: entries for pattern, entries in model.items() if entries}
        self.assertEqual(dict(index.patterns()), kept)
        for kind in (ResourceType.TOPIC, ResourceType.GROUP):
            for name in ("a", "ab", "abc", "b", "x", "*"):
                expected = [
                    each
                    for pattern, entries in kept.items()
                    if pattern.resource_type is kind and pattern.covers(name)
                    for each in entries
                ]
                self.assertEqual(sorted(index.applying(kind, name)), sorted(expected))
        for wanted in (
            AclBindingFilter(),
            AclBindingFilter(ResourceType.TOPIC, "ab", PatternType.MATCH),
            AclBindingFilter(ResourceType.GROUP, "a", PatternType.PREFIXED, principal="User:x"),
        ):
            selected = [
                AclBinding(pattern, each)
                for pattern, entries in kept.items()
                if wanted.matches_pattern(pattern)
                for each in entries
                if wanted.matches_entry(each)
            ]
            self.assertEqual(sorted(chain.from_iterable(index.select(wanted))), sorted(selected))
