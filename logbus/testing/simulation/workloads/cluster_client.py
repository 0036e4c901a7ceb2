"""A client's metadata cache, and its connections to brokers."""

from __future__ import annotations

from random import Random

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.net.channel import Channel
from logbus.net.connect import connect
from logbus.testing.simulation.environment.node_reactor import NodeReactor
from logbus.timers import Timers
from logbus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 8.0


class Unavailable(Exception):
    """The partition has no leader now, or its leader cannot be reached."""


class ClusterClient:
    """
    The cluster as one client process knows it.

    :ivar topic: the client's topic; ``topic_id``: zero until it is known.
    :ivar leaders: by partition: broker id and leader epoch.
    """

    def __init__(self, reactor: NodeReactor, brokers: dict[int, tuple[str, int]], topic: str, random: Random) -> None:
        self.reactor = reactor
        self.topic = topic
        self.topic_id = bytes(16)
        self.leaders: dict[int, tuple[int, int]] = {}
        self.random = random
        self._epochs: dict[int, int] = {}
        self._brokers = dict(brokers)
        self._timers = Timers(reactor)
        self._channels: dict[tuple[int, str], Channel] = {}
        self._connecting: dict[tuple[int, str], list[Deferred[Channel]]] = {}
        self._refreshing: list[Deferred[None]] | None = None

    @property
    def brokers(self) -> list[int]:
        """The ids of all known brokers."""
        return sorted(self._brokers)

    def sleep(self, seconds: float) -> Deferred[None]:
        """Fires after so many seconds."""
        return deferLater(self.reactor, seconds)

    async def leader(self, partition: int, purpose: str) -> tuple[Channel, int]:
        """
        A connection to the leader of a partition, and the leader epoch.

        :raise Unavailable: there is none, or it cannot be reached.
        """
        found = self.leaders.get(partition)
        if found is None:
            await self.refresh()
            found = self.leaders.get(partition)
            if found is None:
                raise Unavailable(f"nobody leads partition {partition}")
        return await self.channel(found[0], purpose), found[1]

    def forget(self, partition: int) -> None:
        """Drop the known leader of a partition."""
        self.leaders.pop(partition, None)

    async def channel(self, broker_id: int, purpose: str) -> Channel:
        """
        A connection to a broker.

        :raise Unavailable: there is none.
        """
        key = (broker_id, purpose)
        channel = self._channels.get(key)
        if channel is not None and channel.usable:
            return channel
        mine: Deferred[Channel] = Deferred()
        waiting = self._connecting.get(key)
        if waiting is not None:
            waiting.append(mine)
            return await mine
        waiting = self._connecting[key] = [mine]
        endpoint = self.endpoint(*self._brokers[broker_id])

        def done(result: Channel | Failure) -> None:
            del self._connecting[key]
            if isinstance(result, Failure):
                if result.check(ConnectError, LogbusError) is None:
                    error: Exception = result.value  # type: ignore[assignment]
                else:
                    error = Unavailable(f"broker {broker_id}: {result.getErrorMessage()}")
                for each in waiting:
                    each.errback(error)
                return
            self._channels[key] = result
            for each in waiting:
                each.callback(result)

        connect(endpoint, self._timers, client_id=self.reactor.host, timeout=ANSWER_SECONDS).addBoth(done)
        return await mine

    def endpoint(self, host: str, port: int) -> IStreamClientEndpoint:
        """The endpoint of a broker."""
        return TCP4ClientEndpoint(self.reactor, host, port, timeout=CONNECT_SECONDS)

    async def refresh(self) -> None:
        """Get the metadata from any broker; concurrent calls share the answer."""
        if self._refreshing is not None:
            mine: Deferred[None] = Deferred()
            self._refreshing.append(mine)
            await mine
            return
        self._refreshing = []
        try:
            await self._ask()
        finally:
            waiting, self._refreshing = self._refreshing, None
            for each in waiting:
                each.callback(None)

    async def _ask(self) -> None:
        broker_id = self.random.choice(sorted(self._brokers))
        try:
            channel = await self.channel(broker_id, "metadata")
            response: MetadataResponse = await channel.request(
                MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)], allow_auto_topic_creation=False)
            )
        except (LogbusError, Unavailable):
            await self.sleep(self.random.uniform(0.02, 0.2))
            return
        for broker in response.brokers:
            self._brokers[broker.node_id] = (broker.host, broker.port)
        for topic in response.topics:
            if topic.error_code:
                continue
            self.topic_id = topic.topic_id
            for each in topic.partitions:
                index = each.partition_index
                # A broker that was away for a while may have older metadata (KIP-320).
                if each.leader_id >= 0 and each.leader_epoch >= self._epochs.get(index, -1):
                    self.leaders[index] = (each.leader_id, each.leader_epoch)
                    self._epochs[index] = each.leader_epoch


def name_of(code: int) -> str:
    """An error's name."""
    return next((each.name for each in ErrorCode if each == code), str(code))


__all__ = ["ApiError", "Unavailable", "ClusterClient", "name_of"]
