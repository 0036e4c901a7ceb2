"""
The built-in authorizer, with the rules of Kafka's StandardAuthorizer. Pure.

A denial wins over all that allows. Who is allowed by no ACL is refused; only where no ACL at all covers the resource,
``allow.everyone.if.no.acl.found`` decides. Super users may do everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

from attrs import define, field
from zope.interface import implementer

from logbus.addresses import canonical_address
from logbus.security.acl.acl_index import AclIndex, Entries
from logbus.security.acl.acls import (
    WILDCARD,
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from logbus.security.acl.iauthorizer import IAuthorizer

K = TypeVar("K")

EVERY_USER = "User:*"

IMPLIED_BY: dict[AclOperation, frozenset[AclOperation]] = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}),
}
"""Whoever is allowed one of these operations is allowed the key, too. A denial implies nothing."""

_MAX_REMEMBERED = 50_000
"""Decisions that are remembered at most: some megabytes."""


@implementer(IAuthorizer)
@define(eq=False)
class StandardAuthorizer:
    """
    Decides by ACLs.

    :param super_users: principals that may do everything.
    :param allow_if_no_acl: whether everyone may use a resource that no ACL covers.
    :ivar version: grows with every change of ACLs.
    """

    super_users: Collection[str] = frozenset()
    allow_if_no_acl: bool = False
    version: int = field(default=0, init=False)
    _index: AclIndex = field(factory=AclIndex, init=False)
    _decisions: dict[tuple[str, str, AclOperation, ResourceType, str], bool] = field(factory=dict, init=False)
    _decisions_by_type: dict[tuple[str, str, AclOperation, ResourceType], bool] = field(factory=dict, init=False)

    def set_acls(self, changes: Iterable[tuple[ResourcePattern, Entries]]) -> None:
        """Replace the entries of patterns; without entries a pattern is removed."""
        for pattern, entries in changes:
            self._index.set(pattern, entries)
        self._decisions.clear()
        self._decisions_by_type.clear()
        self.version += 1

    def select(self, wanted: AclBindingFilter) -> Iterator[list[AclBinding]]:
        """The ACLs that a filter selects, see :meth:`.AclIndex.select`."""
        return self._index.select(wanted)

    def authorize(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """See :class:`IAuthorizer`."""
        key = (principal, host, operation, resource_type, name)
        decision = self._decisions.get(key)
        if decision is None:
            decision = _remember(self._decisions, key, self._decide(*key))
        return decision

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """See :class:`IAuthorizer`. An allowed pattern counts unless a denied one covers the whole of it."""
        key = (principal, host, operation, resource_type)
        decision = self._decisions_by_type.get(key)
        if decision is None:
            decision = _remember(self._decisions_by_type, key, self._decide_by_type(*key))
        return decision

    def _decide_by_type(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        if principal in self.super_users:
            return True
        allowed: list[ResourcePattern] = []
        denied: set[ResourcePattern] = set()
        for pattern, entries in self._index.of_type(resource_type):
            for entry in entries:
                if entry.operation in (operation, AclOperation.ALL) and _is_for(entry, principal, host):
                    if entry.permission is AclPermission.DENY:
                        denied.add(pattern)
                    else:
                        allowed.append(pattern)
        if ResourcePattern(resource_type, WILDCARD) in denied:
            return False
        return self.allow_if_no_acl or any(not _is_denied(pattern, denied) for pattern in allowed)

    def _decide(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        if principal in self.super_users:
            return True
        found = allowed = False
        sufficient = IMPLIED_BY.get(operation, (operation,))
        for entry in self._index.applying(resource_type, name):
            found = True
            if not _is_for(entry, principal, host):
                continue
            every = entry.operation is AclOperation.ALL
            if entry.permission is AclPermission.DENY:
                if every or entry.operation is operation:
                    return False
            elif every or entry.operation in sufficient:
                allowed = True
        return allowed if found else self.allow_if_no_acl


def _remember(decisions: dict[K, bool], key: K, decision: bool) -> bool:
    if len(decisions) >= _MAX_REMEMBERED:
        decisions.clear()
    decisions[key] = decision
    return decision


def _is_for(entry: AccessControlEntry, principal: str, host: str) -> bool:
    return entry.principal in (principal, EVERY_USER) and (entry.host in (host, WILDCARD) or _is_same(entry.host, host))


def _is_same(given: str, host: str) -> bool:
    """Whether an ACL's address is a client's: of IPv6, Java and others write one address in several ways."""
    return ":" in given and canonical_address(given) == canonical_address(host)


def _is_denied(pattern: ResourcePattern, denied: Collection[ResourcePattern]) -> bool:
    """Whether one of the denied patterns covers all resources of this one."""
    kind, name, pattern_type = pattern
    if pattern_type is PatternType.LITERAL and name == WILDCARD:
        return False  # Only the denied wildcard covers it.
    if pattern in denied:
        return True
    return any(ResourcePattern(kind, name[:end], PatternType.PREFIXED) in denied for end in range(1, len(name) + 1))
