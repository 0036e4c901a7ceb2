"""
Looks at what is wrong with all brokers while somebody follows the cluster's events, and tells what began and ended.

Each broker knows its own conditions, which it looks for every few seconds; they are asked for as a client who follows
and may know them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from attrs import define, field
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from logbus.admin.authorization import HttpAccess
from logbus.admin.relay import Relay
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.errors import ApiError
from logbus.security.acl.acls import AclOperation

POLL_SECONDS = 5.0
"""Between two polls, as between two checks of a broker."""

Rows = dict[str, dict[str, Any]]
"""Conditions, as the API tells them, by their ids."""


@define(eq=False)
class ConditionWatch:
    """
    Tells which conditions begin and end.

    :ivar own: returns this broker's conditions, as the API tells them.
    :ivar told: called with those that began, and those that ended.
    """

    metadata: ClusterMetadata
    relay: Relay
    clock: IReactorTime
    own: Callable[[], list[dict[str, Any]]]
    told: Callable[[list[dict[str, Any]], list[dict[str, Any]]], None]
    _followers: list[HttpAccess] = field(factory=list, init=False)
    _known: dict[int, Rows] = field(factory=dict, init=False)
    _loop: LoopingCall | None = field(default=None, init=False)
    _log = Logger()

    def follow(self, access: HttpAccess) -> None:
        """Look as long as somebody follows; the first one is told of all conditions."""
        self._followers.append(access)
        if self._loop is None:
            self._known.clear()
            self._loop = LoopingCall(self._poll)
            self._loop.clock = self.clock
            self._loop.start(POLL_SECONDS)

    def leave(self, access: HttpAccess) -> None:
        """Somebody does not follow any more."""
        self._followers.remove(access)
        if not self._followers and self._loop is not None:
            self._loop.stop()
            self._loop = None

    def _poll(self) -> Deferred[None]:
        looked = Deferred.fromCoroutine(self.poll())
        return looked.addErrback(lambda failure: self._log.failure("looking at what is wrong failed", failure))

    async def poll(self) -> None:
        """Look once at all brokers; what one has that does not answer is taken to be as it was."""
        access = next((each for each in self._followers if each.may_on_cluster(AclOperation.DESCRIBE)), None)
        if access is None:
            return
        loop, here = self._loop, self.relay.broker_id
        others = sorted(self.metadata.brokers.keys() - {here})
        asked = [Deferred.fromCoroutine(self._rows_of(broker_id, access)) for broker_id in others]
        found: dict[int, Rows | None] = {here: {row["id"]: row for row in self.own()}}
        found |= dict(zip(others, await gatherResults(asked, consumeErrors=True), strict=True))
        if loop is self._loop:  # else nobody follows any more
            self._compare(found)

    async def _rows_of(self, broker_id: int, access: HttpAccess) -> Rows | None:
        """Return another broker's conditions; None: it does not answer."""
        rows: Rows = {}
        query: Mapping[str, Any] = {"limit": 500}
        while True:
            target = f"/api/v1/conditions?{urlencode(query)}"
            try:
                response = await self.relay.send(broker_id, "GET", target, {}, b"", access)
            except ApiError:
                return None
            assert isinstance(response.body, bytes)
            if response.status is not HTTPStatus.OK:
                return None
            page = json.loads(response.body)
            rows |= {row["id"]: row for row in page["items"]}
            if page["next"] is None:
                return rows
            query = {"limit": 500, "after": page["next"]}

    def _compare(self, found: Mapping[int, Rows | None]) -> None:
        began: list[dict[str, Any]] = []
        ended: list[dict[str, Any]] = []
        for broker_id in self._known.keys() - found.keys():
            ended += self._known.pop(broker_id).values()
        for broker_id, rows in sorted(found.items()):
            if rows is None:
                continue
            before = self._known.get(broker_id, {})
            began += [row for name, row in rows.items() if name not in before]
            ended += [row for name, row in before.items() if name not in rows]
            self._known[broker_id] = rows
        if began or ended:
            self.told(began, ended)
