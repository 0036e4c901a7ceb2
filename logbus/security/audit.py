"""
The audit log ``logbus.audit``: who was denied what, and who did something privileged.
"""

from __future__ import annotations

from twisted.logger import Logger

from logbus.errors import ErrorCode
from logbus.security.acl.acls import AclOperation, ResourceType

REFUSED: dict[ResourceType, ErrorCode] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error for a resource that one may not use."""

PRIVILEGED = frozenset({AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER, AclOperation.ALTER_CONFIGS})
"""Operations that the audit log notes when they are allowed, too."""

# As an attribute of a class it would have the class's namespace.
_log = Logger(namespace="logbus.audit")


def log_decision(
    decision: str,
    principal: str,
    host: str,
    listener: str,
    operation: AclOperation,
    kind: ResourceType,
    name: str,
    request: str,
    suppressed: int = 0,
) -> None:
    """
    Write a line.

    :param decision: ``allowed`` or ``denied``.
    :param request: what was asked for: the name of an API, or a method and a path of HTTP.
    :param suppressed: denials since the last line that have none.
    """
    _log.info(
        "{decision}: {principal} from {host} on {listener}: {operation} on {kind} {name!r} by {api}{more}",
        decision=decision,
        principal=principal,
        host=host,
        listener=listener,
        operation=operation.title,
        kind=kind.title,
        name=name,
        api=request,
        more=f" ({suppressed} more denials suppressed)" if suppressed else "",
    )
