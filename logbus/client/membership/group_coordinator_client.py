"""Sends requests to one group's coordinator, and looks it up again after it has moved."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.client.cluster.cluster import Cluster, Node
from logbus.client.cluster.coordinators import Coordinators
from logbus.client.membership.failures import ELSEWHERE
from logbus.client.retry import Unreachable
from logbus.errors import ApiError, Disconnected
from logbus.net.channel import Channel
from logbus.wire.connection import api_key_of


@define(eq=False)
class GroupCoordinatorClient:
    """Remembers the coordinator until an error shows that it has moved. Cheap to have several of for one group."""

    _cluster: Cluster
    _group_id: str
    _node: Node | None = field(default=None, init=False)

    def forget(self) -> None:
        """Look the coordinator up again before the next request."""
        self._node = None

    def noticed(self, code: int) -> None:
        """Check an error code for signs that the coordinator has moved."""
        if code in ELSEWHERE:
            self.forget()

    async def channel(self, lane: str = "") -> Channel:
        """
        A connection to the coordinator.

        :param lane: see :meth:`.Cluster.channel`.
        :raise ApiError: there is no coordinator now, or the client is not authorized.
        :raise LogbusError: the coordinator, or any broker, cannot be reached.
        """
        if self._node is None:
            found = (await Coordinators(self._cluster, 0).find([self._group_id]))[self._group_id]
            if isinstance(found, ApiError):
                raise found
            self._node = found
        try:
            return await self._cluster.channel(self._node.node_id, lane)
        except Unreachable:
            self.forget()
            raise

    async def ask(
        self, message: Any, *, highest: int | None = None, lane: str = "", seconds: float | None = None
    ) -> Any:
        """
        Send a request to the coordinator, and return its response, whatever error codes it has.

        :param highest: the highest version to use.
        :param seconds: to wait for the response; default: the connection's.
        :raise LogbusError: as :meth:`channel`, or the connection was lost.
        """
        channel = await self.channel(lane)
        try:
            version = None
            if highest is not None:
                version = min(highest, channel.version(api_key_of(message)))
            answer: Deferred[Any] = channel.request(message, version, seconds)
            return await answer
        except Disconnected:
            self.forget()
            raise
