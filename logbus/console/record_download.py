"""
Records as lines of JSON that a browser saves: sent part by part while they are read.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin.event_stream import Piece, wait_for
from logbus.admin.problem_details import HttpProblem
from logbus.admin.record_json import MAX_SHOWN
from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.page import Download, PageResult, Visit
from logbus.console.record_content import Schemas, decoded
from logbus.console.record_query import NEWEST, RecordQuery
from logbus.console.value_schemas import schemas_of

MOST_DOWNLOADED = 10_000
PARTS: tuple[tuple[int, int], ...] = ((100, MAX_SHOWN), (1, MAX_SHOWN), (1, 16_384))
"""Records of a part, and bytes of their keys, values and headers: the first that is not longer than a page may be."""
TOO_LONG = (HTTPStatus.INSUFFICIENT_STORAGE, HTTPStatus.BAD_REQUEST)
"""How an answer is refused that is, by this broker or by another one."""

Answer = Mapping[str, Any]


@frozen
class RecordDownload:
    """The download of records."""

    @route(
        "GET", "/console/topics/{topic}/records.jsonl", "The same as lines of JSON", rights="Needs Read on the Topic."
    )
    async def download(self, visit: Visit) -> PageResult:
        query = RecordQuery.read(visit.query)
        if query.wrong:
            ((field_name, fault), *_) = query.wrong.items()
            raise HttpProblem(HTTPStatus.BAD_REQUEST, f"{field_name}: {fault}")
        # What is refused altogether is a page, not a broken file.
        parameters = await beginning(visit, query, query.parameters(MOST_DOWNLOADED))
        first = await _part(visit, query, parameters)
        return Download("records.jsonl", "application/x-ndjson", lambda: _lines(visit, query, parameters, first))


def _lines(
    visit: Visit, query: RecordQuery, parameters: Mapping[str, str | int], first: Answer
) -> Generator[Piece, None, None]:
    """Return the lines; those of one part are in memory at a time."""
    told, left, end = first, MOST_DOWNLOADED, first.get("end_offset")
    while True:
        values = [each[part] for each in told["items"] for part in ("key", "value")]
        schemas: Schemas = {}
        if query.shown == "auto":
            schemas = yield from wait_for(Deferred.fromCoroutine(schemas_of(visit.api, values)))
        for each in told["items"][:left]:
            parts = {part: decoded(each[part], schemas) for part in ("key", "value")}
            yield json.dumps({**each, **parts}, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        left -= len(told["items"])
        following = _following(query, parameters, told, end)
        if following is None or left <= 0:
            return
        told = yield from wait_for(Deferred.fromCoroutine(_part(visit, query, following)))


def _following(
    query: RecordQuery, parameters: Mapping[str, str | int], told: Answer, end: int | None
) -> Mapping[str, str | int] | None:
    """Return the parameters of the next part; None: there is none, but for what was written since the first."""
    if not query.partition:
        return None if told["next"] is None else {**parameters, "cursor": told["next"]}
    assert end is not None
    if told["next_offset"] >= end:
        return None
    kept = {name: value for name, value in parameters.items() if name not in ("newest", "timestamp", "offset")}
    return {**kept, "offset": told["next_offset"]}


async def _part(visit: Visit, query: RecordQuery, parameters: Mapping[str, str | int]) -> Answer:
    """
    Return a part of at least one record, if there is one: values are whole, unless no page could have one of them.

    :raise ApiRefusal: there is none to be had.
    """
    *more, last = PARTS
    for limit, shown_bytes in more:
        try:
            return await ask(visit, query, {**parameters, "limit": limit, "shown_bytes": shown_bytes})
        except ApiRefusal as e:
            if e.status not in TOO_LONG:
                raise
    limit, shown_bytes = last
    return await ask(visit, query, {**parameters, "limit": limit, "shown_bytes": shown_bytes})


async def ask(visit: Visit, query: RecordQuery, parameters: Mapping[str, str | int]) -> Answer:
    """Return records of the visit's topic, or of the query's partition of it."""
    told: Answer = await visit.api.get(f"{_at(visit, query)}/records", **parameters)
    return told


async def beginning(visit: Visit, query: RecordQuery, parameters: Mapping[str, str | int]) -> Mapping[str, str | int]:
    """Return the parameters of a query, of which all partitions have their share if it asks for the newest records."""
    if query.partition or query.start != NEWEST or query.filters:
        return parameters
    partitions = (await visit.api.get(_at(visit, query)))["partitions"]
    return {**parameters, "newest": max(1, int(parameters["limit"]) // max(1, partitions))}


def _at(visit: Visit, query: RecordQuery) -> str:
    topic = f"/api/v1/topics/{segment(visit.names['topic'])}"
    return f"{topic}/partitions/{segment(query.partition)}" if query.partition else topic
