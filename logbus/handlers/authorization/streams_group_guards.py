"""Guards of streams groups (KIP-1071; Kafka: KafkaApis)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from logbus.handlers.authorization.access import Access
from logbus.handlers.authorization.guard import Serve, guards
from logbus.handlers.authorization.modern_group_guards import guard_description, guard_heartbeat
from logbus.handlers.authorization.named_topics import FORBIDDEN as TOPIC_FORBIDDEN
from logbus.wire.connection import Request
from logbus.wire.messages.streams_groups import (
    DescribedStreamsGroup,
    DescribedTopology,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatResponse,
    TopologyInfo,
)


@guards(88)
async def streams_group_heartbeat(access: Access, request: Request, serve: Serve) -> Any:
    """
    StreamsGroupHeartbeat: Read on the group, and Describe on the topics of the topology. The handler checks for Create
    on those that are missing, and says so in the status.
    """
    topics = _topics(request.message.topology)
    return await guard_heartbeat(access, request, serve, topics, StreamsGroupHeartbeatResponse)


@guards(89)
async def streams_group_describe(access: Access, request: Request, serve: Serve) -> Any:
    """StreamsGroupDescribe: Describe on each group, and on the topics of its topology."""
    answer: StreamsGroupDescribeResponse = await guard_description(
        access, request, serve, lambda group: _topics(group.topology), DescribedStreamsGroup
    )
    for group in answer.groups:
        if group.error_code == TOPIC_FORBIDDEN:
            group.topology = None
    return answer


def _topics(topology: TopologyInfo | DescribedTopology | None) -> Iterable[str]:
    names: dict[str, None] = {}
    for each in (topology and topology.subtopologies) or ():
        names.update(dict.fromkeys(each.source_topics))
        names.update((topic.name, None) for topic in chain(each.repartition_source_topics, each.state_changelog_topics))
    return names
