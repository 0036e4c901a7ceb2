"""What the guards of consumer groups, share groups and streams groups have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from logbus.errors import ErrorCode
from logbus.handlers.authorization.access import Access
from logbus.handlers.authorization.guard import Serve, divided, on
from logbus.handlers.authorization.named_topics import FORBIDDEN as TOPIC_FORBIDDEN
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.wire.connection import Request

GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
FORBIDDEN = ErrorCode.GROUP_AUTHORIZATION_FAILED


async def guard_heartbeat(
    access: Access, request: Request, serve: Serve, topics: Iterable[str], refused: Callable[..., Any]
) -> Any:
    """
    Ask for Read on the group, and Describe on topics.

    :param refused: makes a response of an error code and an error message.
    """
    code = ErrorCode.NONE
    if not access.allows(AclOperation.READ, GROUP, request.message.group_id):
        code = FORBIDDEN
    elif not await _may_describe(access, request, topics):
        code = TOPIC_FORBIDDEN
    if code:
        return refused(error_code=code, error_message=code.sentence)
    return await serve()


async def guard_description(
    access: Access,
    request: Request,
    serve: Serve,
    topics_of: Callable[[Any], Iterable[str]],
    refused: Callable[..., Any],
) -> Any:
    """
    Ask for Describe on each group, and on the topics of each description, which loses its members without it.

    :param refused: makes a description of an id, an error code and an error message.
    """
    message = request.message
    described = on(access, AclOperation.DESCRIBE, GROUP)
    message.group_ids, gone = await divided(access, request, message.group_ids, described)
    answer = await serve()
    async for group in access.context.time_slice(request).over(answer.groups):
        if message.include_authorized_operations and not group.error_code:
            group.authorized_operations = access.operations(GROUP, group.group_id)
        if not await _may_describe(access, request, topics_of(group)):
            group.error_code = TOPIC_FORBIDDEN
            group.error_message = "The group has topics that the client may not describe."
            group.members = []
    answer.groups += [
        refused(group_id=group_id, error_code=FORBIDDEN, error_message=FORBIDDEN.sentence) for group_id in gone
    ]
    return answer


async def _may_describe(access: Access, request: Request, topics: Iterable[str]) -> bool:
    async for name in access.context.time_slice(request).over(topics):
        if not access.allows(AclOperation.DESCRIBE, TOPIC, name):
            return False
    return True
