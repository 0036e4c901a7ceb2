"""
Keeps an authorizer's ACLs as the security nodes have them.

A node that cannot be read denies its resource to all but super users: what it was to deny is not known.
"""

from __future__ import annotations

from attrs import define
from twisted.logger import Logger

from logbus.cluster.security_nodes import Changes, SecurityNodes
from logbus.metastore.security_znodes import AclEntry, AclZnode
from logbus.metastore.znode_json import BadZnode
from logbus.metastore.znodes import ACLS, PREFIXED_ACLS
from logbus.security.acl.acl_index import Entries
from logbus.security.acl.acls import (
    WILDCARD,
    AccessControlEntry,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from logbus.security.acl.standard_authorizer import EVERY_USER, StandardAuthorizer

DENIED: Entries = (AccessControlEntry(EVERY_USER, WILDCARD, AclOperation.ALL, AclPermission.DENY),)


def pattern_of(path: str) -> ResourcePattern:
    """
    The resources that a node has the ACLs of.

    :raise BadZnode: it is no such node, or of a type of resources that this release does not know.
    """
    kind, name, prefixed = AclZnode.resource(path)
    try:
        resource_type = ResourceType.of_title(kind)
    except ValueError as error:
        raise BadZnode(f"{path}: the type of the resource: {error}") from None
    return ResourcePattern(resource_type, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL)


def path_of(pattern: ResourcePattern) -> str:
    """The path of the node with the ACLs of a pattern."""
    return AclZnode.path(
        pattern.resource_type.title, pattern.name, prefixed=pattern.pattern_type is PatternType.PREFIXED
    )


def entries_of(path: str, data: bytes | None) -> Entries:
    """
    The ACLs in a node.

    :raise BadZnode: it cannot be read.
    """
    try:
        return tuple(
            AccessControlEntry(
                each.principal,
                each.host,
                AclOperation.of_title(each.operation),
                AclPermission.of_title(each.permission),
            )
            for each in AclZnode.decode(path, data)
        )
    except ValueError as error:
        raise BadZnode(f"{path}: {error}") from None


def content_of(entries: Entries) -> bytes | None:
    """The content of a node with ACLs; None: there are none, so it is to be removed."""
    return AclZnode.encode(
        [AclEntry(each.principal, each.permission.title, each.operation.title, each.host) for each in entries]
    )


@define(eq=False)
class AclSubscriber:
    """Follows the ACLs among the security nodes."""

    _authorizer: StandardAuthorizer
    _log = Logger()

    def follow(self, nodes: SecurityNodes) -> None:
        """Begin to follow them."""
        for root in (ACLS, PREFIXED_ACLS):
            nodes.subscribe(root, self._changed)

    def _changed(self, changes: Changes) -> None:
        found: list[tuple[ResourcePattern, Entries]] = []
        for path, data in changes.items():
            try:
                pattern = pattern_of(path)
            except BadZnode as error:
                if data is not None:
                    self._log.error("an ACL is ignored: {error}", error=error)
                continue
            try:
                found.append((pattern, entries_of(path, data)))
            except BadZnode as error:
                self._log.error("ACLs cannot be read, so that all is denied that they are for: {error}", error=error)
                found.append((pattern, DENIED))
        self._authorizer.set_acls(found)
