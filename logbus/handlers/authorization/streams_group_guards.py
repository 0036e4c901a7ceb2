"""Guards of streams groups (KIP-1071; Kafka: KafkaApis)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from logbus.errors import ErrorCode
from logbus.handlers.authorization.access import Access
from logbus.handlers.authorization.group_guards import DESCRIBE, FORBIDDEN, GROUP, READ, TOPIC
from logbus.handlers.authorization.guard import Serve, allowed_on_all, divided, guards, on
from logbus.handlers.authorization.named_topics import FORBIDDEN as TOPIC_FORBIDDEN
from logbus.wire.connection import Request
from logbus.wire.messages.streams_groups import (
    DescribedStreamsGroup,
    DescribedSubtopology,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    SubtopologyInfo,
)


@guards(88)
async def streams_group_heartbeat(access: Access, request: Request, serve: Serve) -> Any:
    """
    StreamsGroupHeartbeat: Read on the group, and Describe on the topics of the topology. The handler checks for Create
    on those that are missing, and says so in the status.
    """
    message: StreamsGroupHeartbeatRequest = request.message
    code = ErrorCode.NONE
    if not access.allows(READ, GROUP, message.group_id):
        code = FORBIDDEN
    elif message.topology is not None:
        names = dict.fromkeys(_topics(message.topology.subtopologies))
        if not await allowed_on_all(access, request, DESCRIBE, TOPIC, names):
            code = TOPIC_FORBIDDEN
    if code:
        return StreamsGroupHeartbeatResponse(error_code=code, error_message=code.sentence)
    return await serve()


@guards(89)
async def streams_group_describe(access: Access, request: Request, serve: Serve) -> Any:
    """StreamsGroupDescribe: Describe on each group, and on the topics of its topology."""
    message: StreamsGroupDescribeRequest = request.message
    message.group_ids, gone = await divided(access, request, message.group_ids, on(access, DESCRIBE, GROUP))
    answer: StreamsGroupDescribeResponse = await serve()
    async for group in access.context.time_slice(request).over(answer.groups):
        if message.include_authorized_operations and not group.error_code:
            group.authorized_operations = access.operations(GROUP, group.group_id)
        subtopologies = () if group.topology is None else group.topology.subtopologies or ()
        names = dict.fromkeys(_topics(subtopologies))
        if not await allowed_on_all(access, request, DESCRIBE, TOPIC, names):
            group.error_code = TOPIC_FORBIDDEN
            group.error_message = "The group has topics that the client may not describe."
            group.members = []
            group.topology = None
    answer.groups += [
        DescribedStreamsGroup(group_id=group_id, error_code=FORBIDDEN, error_message=FORBIDDEN.sentence)
        for group_id in gone
    ]
    return answer


def _topics(subtopologies: Iterable[SubtopologyInfo | DescribedSubtopology]) -> Iterator[str]:
    for each in subtopologies:
        yield from each.source_topics
        for topic in chain(each.repartition_source_topics, each.state_changelog_topics):
            yield topic.name
