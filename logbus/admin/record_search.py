"""
Searches a topic for records, one partition after the other, a bounded part with each request.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from attrs import evolve, field, frozen, mutable

from logbus.admin.authorization import HttpAccess
from logbus.admin.problem_details import HttpProblem
from logbus.admin.record_reader import EARLIEST, LATEST, PageQuery, RecordReader
from logbus.errors import ApiError, ErrorCode

SEARCH_SECONDS = 1.5
"""After which a part of a search ends; its client shows what was found, and goes on or stops."""

FETCHED_BYTES = 4 << 20
"""Bytes that a search fetches at a time."""


@frozen
class Cursor:
    """
    The position at which a search continues.

    :ivar offset: in the partition; None: at its beginning.
    :ivar end: the offset before which the search in the partition ends: its end when it was begun there.
    """

    partition: int
    offset: int | None = None
    end: int | None = None

    def encode(self) -> str:
        """Return it as a text."""
        if self.offset is None or self.end is None:
            return str(self.partition)
        return f"{self.partition}.{self.offset}.{self.end}"

    @classmethod
    def decode(cls, text: str, partitions: int) -> Cursor:
        """
        Read it.

        :param partitions: of the topic.
        :raise HttpProblem: it is none of this topic.
        """
        found = re.fullmatch(r"([0-9]{1,9})(?:\.([0-9]{1,18})\.([0-9]{1,18}))?", text, re.ASCII)
        if found is None or int(found[1]) >= partitions:
            raise HttpProblem(
                HTTPStatus.BAD_REQUEST,
                f"The query parameter 'cursor' is {text!r}, which is not the 'next' of an answer about this topic.",
            )
        if found[2] is None:
            return cls(int(found[1]))
        return cls(int(found[1]), int(found[2]), int(found[3]))


@mutable
class FoundPart:
    """
    The result of a part of a search.

    :ivar items: records as JSON.
    :ivar cursor: where to continue; None: the search is complete.
    :ivar scanned: records gone through.
    """

    cursor: Cursor | None
    items: list[dict[str, Any]] = field(factory=list)
    scanned: int = 0


async def search(
    reader: RecordReader,
    access: HttpAccess,
    topic: str,
    partitions: int,
    cursor: Cursor,
    query: PageQuery,
    goes_on: Callable[[int], bool],
) -> FoundPart:
    """
    Search on.

    :param partitions: how many the topic has.
    :param goes_on: whether the same part may go on with a partition, which this broker leads.
    :raise ApiError: as :meth:`.RecordReader.page`.
    """
    part, room = FoundPart(cursor), query.room
    deadline = reader.clock.seconds() + SEARCH_SECONDS
    while (at := part.cursor) is not None:
        end = at.end
        if end is None:
            end = await reader.offset(access, topic, at.partition, LATEST, query.committed)
        asked = evolve(query, end=end, limit=query.limit - len(part.items), room=room, max_bytes=FETCHED_BYTES)
        if at.offset is not None:
            asked = evolve(asked, offset=at.offset, timestamp=None, newest=None)
        try:
            page = await reader.page(access, topic, at.partition, asked)
        except ApiError as e:
            if e.code is not ErrorCode.OFFSET_OUT_OF_RANGE or at.offset is None:
                raise
            # Records were deleted meanwhile: continue with those that are left.
            first = await reader.offset(access, topic, at.partition, EARLIEST, query.committed)
            part.cursor = Cursor(at.partition, first, max(first, end))
            if reader.clock.seconds() >= deadline:
                break
            continue
        part.items += page.found.items
        part.scanned += page.found.scanned
        room = page.found.room
        offset = page.found.next_offset
        if offset >= min(end, page.end):
            part.cursor = Cursor(at.partition + 1) if at.partition + 1 < partitions else None
            if part.cursor is not None and not goes_on(at.partition + 1):
                break
        else:
            part.cursor = Cursor(at.partition, offset, end)
        if len(part.items) >= query.limit or room <= 0 or reader.clock.seconds() >= deadline:
            break
    return part
