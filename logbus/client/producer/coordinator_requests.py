"""Sends a request to a key's coordinator, looking it up and retrying on retriable errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field

from logbus.client.cluster.cluster import Cluster
from logbus.client.cluster.coordinators import COORDINATOR_RETRIABLE, Coordinators, CoordinatorType
from logbus.client.retry import Backoff, is_retriable
from logbus.coroutines import sleep
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.net.channel import Channel
from logbus.wire.connection import api_key_of

_SOON = Backoff(0.02, 0.5)
"""The backoff while the coordinator is still ending the previous transaction."""


@define(eq=False)
class CoordinatorRequests:
    """
    Remembers the coordinator of each key until it moves or cannot be reached.

    :ivar kind: the kind of keys: groups or transactional ids.
    """

    cluster: Cluster
    kind: CoordinatorType
    _nodes: dict[str, int] = field(factory=dict, init=False)

    async def channel(self, key: str, deadline: float) -> Channel:
        """
        A connection to a key's coordinator.

        :raises LogbusError: the coordinator could not be found or reached; retriable errors are raised at the deadline,
            in the reactor's time.
        """
        attempt = 0
        while True:
            try:
                return await self._find(key)
            except LogbusError as e:
                if not is_retriable(e):
                    raise
                attempt += 1
                await self._again(key, attempt, deadline, e)

    async def ask(self, key: str, request: Any, highest: int, code_of: Callable[[Any], int], deadline: float) -> Any:
        """
        Send a request to a key's coordinator, retrying until the deadline.

        :param highest: the latest version to use.
        :param code_of: returns the error code of a response.
        :returns: the response without an error.
        :raises ApiError: the coordinator refused.
        :raises LogbusError: the coordinator could not be reached before the deadline.
        """
        attempt = 0
        while True:
            error: LogbusError
            try:
                channel = await self._find(key)
                answer = await channel.request(request, min(highest, channel.version(api_key_of(request))))
                refusal = self.kind.error(code_of(answer), key, None)
                if refusal is None:
                    return answer
                error = refusal
            except LogbusError as e:
                error = e
            if not is_retriable(error):
                raise error
            attempt += 1
            await self._again(key, attempt, deadline, error)

    async def _find(self, key: str) -> Channel:
        node_id = self._nodes.get(key)
        if node_id is None:
            found = (await Coordinators(self.cluster, 0.0, self.kind).find([key])).get(key)
            if found is None:
                raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"nobody coordinates {self.kind.noun} {key!r}")
            if isinstance(found, ApiError):
                raise found
            node_id = self._nodes[key] = found.node_id
        return await self.cluster.channel(node_id)

    async def _again(self, key: str, attempt: int, deadline: float, error: LogbusError) -> None:
        """Wait before another attempt, and look the coordinator up anew if it may have moved."""
        if not isinstance(error, ApiError) or error.code in COORDINATOR_RETRIABLE:
            self._nodes.pop(key, None)
        is_soon = isinstance(error, ApiError) and error.code is ErrorCode.CONCURRENT_TRANSACTIONS
        wait = (_SOON if is_soon else self.cluster.backoff).before(attempt)
        if self.cluster.reactor.seconds() + wait > deadline:
            raise error
        await sleep(self.cluster.reactor, wait)
