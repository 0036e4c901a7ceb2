"""
DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets: where share groups are (KIP-932).
"""

from __future__ import annotations

from typing import Self

from attrs import define

from logbus.coordination.share_group_offsets import ShareGroupOffsets, ShareStart, TopicStarts
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import serves, task
from logbus.net.request_context import RequestContext
from logbus.net.time_slices import TimeSlice
from logbus.wire.connection import Request
from logbus.wire.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)


@define(eq=False)
class ShareGroupOffsetHandlers:
    """Reads, sets and deletes the start offsets of share groups."""

    _offsets: ShareGroupOffsets

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.share_group_offsets)

    @serves(90, 0, 1)
    @task
    async def describe(self, context: RequestContext, request: Request) -> DescribeShareGroupOffsetsResponse:
        message: DescribeShareGroupOffsetsRequest = request.message
        time_slice = context.time_slice(request)
        # Each group is described once, since a request can repeat ids at little cost.
        asked = {group.group_id: group for group in message.groups}
        return DescribeShareGroupOffsetsResponse(
            groups=[await self._described(group, time_slice) async for group in time_slice.over(asked.values(), 4)]
        )

    async def _described(
        self, asked: DescribeShareGroupOffsetsRequestGroup, time_slice: TimeSlice
    ) -> DescribeShareGroupOffsetsResponseGroup:
        topics = None if asked.topics is None else {topic.topic_name: topic.partitions for topic in asked.topics}
        try:
            _check_group_id(asked.group_id)
            found = await self._offsets.describe(asked.group_id, topics, time_slice)
        except ApiError as e:
            return DescribeShareGroupOffsetsResponseGroup(
                group_id=asked.group_id, error_code=e.code, error_message=e.message
            )
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=asked.group_id,
            topics=[
                DescribeShareGroupOffsetsResponseTopic(
                    topic_name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        DescribeShareGroupOffsetsResponsePartition(
                            partition_index=start.partition,
                            start_offset=start.start_offset,
                            leader_epoch=start.leader_epoch,
                            lag=start.lag,
                            error_code=_code(start.error),
                            error_message=_message(start.error),
                        )
                        async for start in time_slice.over(topic.starts)
                    ],
                )
                async for topic in time_slice.over(found)
            ],
        )

    @serves(91, 0, 0)
    @task
    async def alter(self, context: RequestContext, request: Request) -> AlterShareGroupOffsetsResponse:
        message: AlterShareGroupOffsetsRequest = request.message
        time_slice = context.time_slice(request)
        offsets = {
            topic.topic_name: {
                each.partition_index: each.start_offset async for each in time_slice.over(topic.partitions)
            }
            async for topic in time_slice.over(message.topics)
        }
        try:
            _check_group_id(message.group_id)
            altered = await self._offsets.alter(message.group_id, offsets, context, time_slice)
        except ApiError as e:
            return AlterShareGroupOffsetsResponse(error_code=e.code, error_message=e.message)
        return AlterShareGroupOffsetsResponse(
            responses=[await _altered(topic, time_slice) async for topic in time_slice.over(altered)]
        )

    @serves(92, 0, 0)
    @task
    async def delete(self, context: RequestContext, request: Request) -> DeleteShareGroupOffsetsResponse:
        message: DeleteShareGroupOffsetsRequest = request.message
        time_slice = context.time_slice(request)
        names = list(dict.fromkeys(topic.topic_name for topic in message.topics))
        try:
            _check_group_id(message.group_id)
            deleted = await self._offsets.delete(message.group_id, names, time_slice)
        except ApiError as e:
            return DeleteShareGroupOffsetsResponse(error_code=e.code, error_message=e.message)
        return DeleteShareGroupOffsetsResponse(
            responses=[
                DeleteShareGroupOffsetsResponseTopic(
                    topic_name=name, topic_id=topic_id, error_code=_code(error), error_message=_message(error)
                )
                async for name, (topic_id, error) in time_slice.over(deleted.items())
            ]
        )


async def _altered(topic: TopicStarts, time_slice: TimeSlice) -> AlterShareGroupOffsetsResponseTopic:
    def result(start: ShareStart) -> AlterShareGroupOffsetsResponsePartition:
        return AlterShareGroupOffsetsResponsePartition(
            partition_index=start.partition, error_code=_code(start.error), error_message=_message(start.error)
        )

    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.name,
        topic_id=topic.topic_id,
        partitions=[result(start) async for start in time_slice.over(topic.starts)],
    )


def _check_group_id(group_id: str) -> None:
    if not group_id.strip():
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")


def _code(error: ApiError | None) -> ErrorCode:
    return ErrorCode.NONE if error is None else error.code


def _message(error: ApiError | None) -> str | None:
    return None if error is None else error.message
