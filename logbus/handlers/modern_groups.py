"""
What the requests about consumer groups, share groups and streams groups have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from logbus.errors import ApiError, ErrorCode
from logbus.handlers.group_admin import GROUP_OPERATIONS
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request

Described = TypeVar("Described", bound=Any)


def check_heartbeat_group(group_id: str) -> None:
    """
    Check the group that a heartbeat names.

    :raise ApiError: INVALID_REQUEST: it names none.
    """
    if not group_id.strip():
        raise ApiError(ErrorCode.INVALID_REQUEST, "the group id is empty")


async def describe_all(
    context: RequestContext,
    request: Request,
    describe: Callable[[str], Described],
    refused: Callable[..., Described],
) -> list[Described]:
    """
    Describe the groups that a request names, each once, in time slices.

    :param describe: the description of a group; raises ApiError if there is none.
    :param refused: makes a description of an id, an error code and an error message.
    """
    time_slice = context.time_slice(request)
    groups = []
    for group_id in dict.fromkeys(request.message.group_ids):
        try:
            if not group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
            described = describe(group_id)
            if request.message.include_authorized_operations:
                described.authorized_operations = GROUP_OPERATIONS
        except ApiError as e:
            described = refused(group_id=group_id, error_code=e.code, error_message=e.message)
        groups.append(described)
        if time_slice.used(3 + 4 * len(described.members)):
            await time_slice.next()
    return groups
