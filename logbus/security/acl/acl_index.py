"""Finds the ACLs that apply to a resource. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from attrs import define, field

from logbus.security.acl.acls import (
    WILDCARD,
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    PatternType,
    ResourcePattern,
    ResourceType,
)

Entries = tuple[AccessControlEntry, ...]

PATTERNS_A_STEP = 16
"""Number of patterns that a filter is compared with in a step; they take some microseconds."""


@define(eq=False)
class _Prefixes:
    """The prefixed patterns of one type, by prefix."""

    entries: dict[str, Entries] = field(factory=dict)
    lengths: Counter[int] = field(factory=Counter)

    def matching(self, name: str) -> Iterator[Entries]:
        """The entries of all prefixes of a name: one look-up for each length that there is."""
        for length in self.lengths:
            if length <= len(name) and (found := self.entries.get(name[:length])):
                yield found


@define(eq=False)
class AclIndex:
    """All ACLs, by the resources that they are for."""

    _literal: dict[ResourceType, dict[str, Entries]] = field(factory=dict, init=False)
    _prefixed: dict[ResourceType, _Prefixes] = field(factory=dict, init=False)

    def set(self, pattern: ResourcePattern, entries: Entries) -> None:
        """Replace the entries of a pattern; none: remove it."""
        kind, name, pattern_type = pattern
        if pattern_type is PatternType.PREFIXED:
            prefixes = self._prefixed.setdefault(kind, _Prefixes())
            known, lengths = prefixes.entries, prefixes.lengths
            lengths[len(name)] += bool(entries) - (name in known)
            if not lengths[len(name)]:
                del lengths[len(name)]
        else:
            known = self._literal.setdefault(kind, {})
        if entries:
            known[name] = entries
        else:
            known.pop(name, None)

    def applying(self, kind: ResourceType, name: str) -> Iterator[AccessControlEntry]:
        """The entries of all patterns that cover a resource."""
        literal = self._literal.get(kind)
        if literal:
            yield from literal.get(name, ())
            if name != WILDCARD:
                yield from literal.get(WILDCARD, ())
        prefixes = self._prefixed.get(kind)
        if prefixes is not None:
            for entries in prefixes.matching(name):
                yield from entries

    def patterns(self) -> Iterator[tuple[ResourcePattern, Entries]]:
        """All patterns, with their entries."""
        for kind in ResourceType:
            for name, entries in self._literal.get(kind, {}).items():
                yield ResourcePattern(kind, name), entries
            if kind in self._prefixed:
                for name, entries in self._prefixed[kind].entries.items():
                    yield ResourcePattern(kind, name, PatternType.PREFIXED), entries

    def of_type(self, kind: ResourceType) -> Iterator[tuple[ResourcePattern, Entries]]:
        """The patterns of a type, with their entries."""
        return ((pattern, entries) for pattern, entries in self.patterns() if pattern.resource_type is kind)

    def select(self, wanted: AclBindingFilter) -> Iterator[list[AclBinding]]:
        """
        The ACLs that a filter selects among those that there are now, in lists of few patterns; some are empty. ACLs
        may be changed before the iteration is over.
        """
        found: list[AclBinding] = []
        for number, (pattern, entries) in enumerate(list(self.patterns()), 1):
            if wanted.matches_pattern(pattern):
                found += [AclBinding(pattern, entry) for entry in entries if wanted.matches_entry(entry)]
            if len(found) >= PATTERNS_A_STEP or number % PATTERNS_A_STEP == 0:
                yield found
                found = []
        yield found
