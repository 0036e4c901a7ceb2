"""Routes a client's requests to partition leaders and to coordinators of groups and transactional ids."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.errors import ErrorCode, LogbusError
from logbus.net.channel import Channel
from logbus.testing.simulation.workloads.cluster_client import ClusterClient, Unavailable, name_of
from logbus.wire.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0
TRANSACTION = 1
MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""Errors after which the leader or coordinator is looked up again."""
RETRIABLE = MOVED | frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Errors after which the request may be retried."""


@define(eq=False)
class ClientRouter:
    """
    Sends requests to the right brokers. Requests may be lost, and so may their answers.

    :ivar purpose: connections of one purpose are shared: requests on one are answered in order.
    """

    view: ClusterClient
    purpose: str
    _coordinators: dict[tuple[int, str], int] = field(factory=dict, init=False)

    @property
    def now(self) -> float:
        """The time, in seconds."""
        return float(self.view.reactor.seconds())

    def pause(self) -> Deferred[None]:
        """Wait before a retry."""
        return self.view.sleep(self.view.random.uniform(0.02, 0.2))

    async def ask_leader(self, partition: int, message: Any, version: int) -> Any:
        """
        Send a request to the leader of a partition.

        :raise Unavailable: nothing was sent.
        :raise LogbusError: whether it arrived is not known.
        """
        channel, _ = await self.view.leader(partition, self.purpose)
        try:
            return await self.send(channel, message, version)
        except LogbusError:
            self.view.forget(partition)
            raise

    async def ask_coordinator(self, kind: int, key: str, message: Any, version: int) -> Any:
        """
        Send a request to the coordinator of a group or a transactional id.

        :raise Unavailable: nothing was sent.
        :raise LogbusError: whether it arrived is not known.
        """
        place = (kind, key)
        if place not in self._coordinators:
            self._coordinators[place] = await self._find(kind, key)
        channel = await self._connected(place)
        try:
            return await self.send(channel, message, version)
        except LogbusError:
            self._coordinators.pop(place, None)
            raise

    def moved(self, kind: int, key: str) -> None:
        """Drop the known coordinator of a key."""
        self._coordinators.pop((kind, key), None)

    def send(self, channel: Channel, message: Any, version: int) -> Deferred[Any]:
        """Send a request; tests replace this to lose messages."""
        return channel.request(message, version)

    async def _connected(self, place: tuple[int, str]) -> Channel:
        try:
            return await self.view.channel(self._coordinators[place], self.purpose)
        except Unavailable:
            self._coordinators.pop(place, None)
            raise

    async def _find(self, kind: int, key: str) -> int:
        broker_id = self.view.random.choice(self.view.brokers)
        try:
            channel = await self.view.channel(broker_id, "metadata")
            response: FindCoordinatorResponse = await channel.request(
                FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4
            )
        except LogbusError as error:
            raise Unavailable(f"broker {broker_id} did not say who coordinates {key}: {error}") from None
        found = response.coordinators[0]
        if found.error_code:
            raise Unavailable(f"nobody coordinates {key}: {name_of(found.error_code)}")
        return found.node_id
