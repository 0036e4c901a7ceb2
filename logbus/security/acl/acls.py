"""
ACLs, the resources they are for, and filters of both (Kafka: AclBinding, ResourcePattern; KIP-11, KIP-290). Pure.

The numbers of all enumerations are those of the protocol; the names in JSON and on command lines are their
:attr:`~CodedEnum.title`.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache, cached_property
from typing import NamedTuple, Self, TypeVar

E = TypeVar("E", bound="CodedEnum")

WILDCARD = "*"
"""The resource name, user name or host that stands for all."""

CLUSTER_NAME = "kafka-cluster"
"""The only name of a resource of type CLUSTER."""


class CodedEnum(IntEnum):
    """An enumeration of the protocol."""

    @cached_property
    def title(self) -> str:
        """The name as Kafka's JSON has it: ``DescribeConfigs``."""
        return self.name.title().replace("_", "")

    @classmethod
    def of_title(cls, text: str) -> Self:
        """
        The member with a name, whatever its case and with or without underscores.

        :raises ValueError: there is none; names those that can be stored.
        """
        titles: dict[str, Self] = _by_title(cls)
        found = titles.get(text) or titles.get(text.replace("_", "").replace("-", "").lower())
        if found is not None:
            return found
        known = ", ".join(each.title for each in cls if each.name not in ("UNKNOWN", "ANY", "MATCH"))
        raise ValueError(f"{text!r} is none of {known}")


@cache
def _by_title(kind: type[E]) -> dict[str, E]:
    """The members by their titles, and by these in lower case."""
    members = list(kind)
    return {each.title: each for each in members} | {each.title.lower(): each for each in members}


class ResourceType(CodedEnum):
    """Kinds of resources."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(CodedEnum):
    """The way in which a pattern's name is compared; ANY and MATCH only in filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(CodedEnum):
    """An operation on a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(CodedEnum):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


OPERATIONS_OF: dict[ResourceType, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""The operations that there are for each type of resource (Kafka: AclEntry.supportedOperations)."""


class ResourcePattern(NamedTuple):
    """
    The resources that an ACL is for.

    :ivar name: of the resource; the beginning of its name, if PREFIXED; ``*`` (LITERAL) for all.
    """

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def covers(self, name: str) -> bool:
        """Whether a resource of the same type is one of these."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class AccessControlEntry(NamedTuple):
    """
    An operation that is allowed or denied to a principal on a host.

    :ivar principal: ``User:name``, or ``User:*`` for all.
    :ivar host: an address, or ``*``.
    """

    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission


class AclBinding(NamedTuple):
    """An ACL: an entry, and the resources that it is for."""

    pattern: ResourcePattern
    entry: AccessControlEntry

    def check(self) -> None:
        """
        Check that it can be stored.

        :raises ValueError: names what is wrong.
        """
        pattern, entry = self
        if pattern.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
            raise ValueError(f"an ACL is for one type of resource, not {pattern.resource_type.title}")
        if pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise ValueError(f"the pattern type of an ACL is Literal or Prefixed, not {pattern.pattern_type.title}")
        if not pattern.name:
            raise ValueError("the name of the resource is empty")
        if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
            raise ValueError(f"the only valid name of a Cluster resource is {CLUSTER_NAME}, not {pattern.name!r}")
        if entry.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
            raise ValueError(f"an ACL is for one operation or All, not {entry.operation.title}")
        if entry.permission not in (AclPermission.ALLOW, AclPermission.DENY):
            raise ValueError(f"an ACL allows or denies; its permission is not {entry.permission.title}")
        kind, colon, name = entry.principal.partition(":")
        if not (kind and colon and name):
            raise ValueError(f"the principal {entry.principal!r} is not such as User:alice")
        if not entry.host:
            raise ValueError("the host is empty; * stands for all")


class AclBindingFilter(NamedTuple):
    """
    Selects ACLs (Kafka: AclBindingFilter); None and ANY match everything.

    :ivar pattern_type: MATCH: those that apply to a resource of this name.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        """Whether it selects ACLs for these resources."""
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        return pattern.covers(self.name) if self.pattern_type is PatternType.MATCH else pattern.name == self.name

    def matches_entry(self, entry: AccessControlEntry) -> bool:
        """Whether it selects ACLs with this entry."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (AclPermission.ANY, entry.permission)
        )

    def check(self) -> None:
        """
        Check that it selects by values that this release knows.

        :raises ValueError: names the field.
        """
        for value in (self.resource_type, self.pattern_type, self.operation, self.permission):
            if value.name == "UNKNOWN":
                raise ValueError(f"the filter's {type(value).__name__} is unknown")
