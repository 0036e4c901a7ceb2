"""Guards of share groups (KIP-932; Kafka: KafkaApis)."""

from __future__ import annotations

from typing import Any

from logbus.errors import ErrorCode
from logbus.handlers.authorization.access import Access
from logbus.handlers.authorization.group_guards import DESCRIBE, FORBIDDEN, GROUP, READ, TOPIC
from logbus.handlers.authorization.guard import Serve, divided, guards, on
from logbus.handlers.authorization.named_topics import FORBIDDEN as TOPIC_FORBIDDEN
from logbus.wire.connection import Request
from logbus.wire.messages.share_groups import (
    DescribedShareGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


@guards(76)
async def share_group_heartbeat(access: Access, request: Request, serve: Serve) -> Any:
    """ShareGroupHeartbeat: Read on the group, and Describe on the topics it subscribes to."""
    message: ShareGroupHeartbeatRequest = request.message
    code = ErrorCode.NONE
    if not access.allows(READ, GROUP, message.group_id):
        code = FORBIDDEN
    elif not all(access.allows(DESCRIBE, TOPIC, name) for name in message.subscribed_topic_names or ()):
        code = TOPIC_FORBIDDEN
    if code:
        return ShareGroupHeartbeatResponse(error_code=code, error_message=code.sentence)
    return await serve()


@guards(77)
async def share_group_describe(access: Access, request: Request, serve: Serve) -> Any:
    """ShareGroupDescribe: Describe on each group, and on the topics that its members have."""
    message: ShareGroupDescribeRequest = request.message
    message.group_ids, gone = await divided(access, request, message.group_ids, on(access, DESCRIBE, GROUP))
    answer: ShareGroupDescribeResponse = await serve()
    for group in answer.groups:
        if message.include_authorized_operations and not group.error_code:
            group.authorized_operations = access.operations(GROUP, group.group_id)
        topics = {topic.topic_name for member in group.members for topic in member.assignment.topic_partitions}
        if not all(access.allows(DESCRIBE, TOPIC, name) for name in topics):
            group.error_code = TOPIC_FORBIDDEN
            group.error_message = "The group has topics that the client may not describe."
            group.members = []
    answer.groups += [
        DescribedShareGroup(group_id=group_id, error_code=FORBIDDEN, error_message=FORBIDDEN.sentence)
        for group_id in gone
    ]
    return answer
