"""Which rights on a source's topics are given on their copies (Kafka: MirrorSourceConnector.syncTopicAcls). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from logbus.security.acl.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType


def copied_acls(bindings: Iterable[AclBinding], copies: Mapping[str, str]) -> set[AclBinding]:
    """
    The ACLs of the copies. If a copy has another name, nobody gets the right to write to it, since only the mirror
    does: ALL becomes READ.

    :param bindings: those of the source.
    :param copies: the names of copies, by those of their topics.
    """
    found = set()
    for pattern, entry in bindings:
        is_topic = pattern.resource_type is ResourceType.TOPIC and pattern.pattern_type is PatternType.LITERAL
        if not is_topic or pattern.name not in copies:
            continue
        copy = copies[pattern.name]
        if copy != pattern.name and entry.permission is AclPermission.ALLOW:
            if entry.operation is AclOperation.WRITE:
                continue
            if entry.operation is AclOperation.ALL:
                entry = entry._replace(operation=AclOperation.READ)
        found.add(AclBinding(pattern._replace(name=copy), entry))
    return found
