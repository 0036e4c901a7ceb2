"""Opens the virtual logs of the partitions that this broker leads, when they are first asked for, and closes them."""

from __future__ import annotations

from collections import OrderedDict

from attrs import define, field
from twisted.internet.defer import DeferredLock
from twisted.internet.interfaces import IReactorTime

from logbus.errors import ApiError, ErrorCode
from logbus.ilogbus import IBroker
from logbus.kafka07.virtual_log import VirtualLog

FILE = "kafka07"
"""The name of the index's file, without its suffix."""

MOST_OPEN = 2000
"""Virtual logs that are open; of more, those are closed that were not read for longest."""


@define(eq=False)
class VirtualLogs:
    """The virtual logs of a broker."""

    _broker: IBroker
    _clock: IReactorTime
    most_open: int = MOST_OPEN
    _open: OrderedDict[tuple[str, int], VirtualLog] = field(factory=OrderedDict, init=False)
    _opening: DeferredLock = field(factory=DeferredLock, init=False)

    async def get(self, topic: str, partition: int) -> VirtualLog:
        """
        Return a partition's.

        :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, …
        """
        found = self._current(topic, partition)
        if found is not None:
            return found
        await self._opening.acquire()
        try:
            found = self._current(topic, partition)
            if found is None:
                topic_id = self._broker.leadership(topic, partition).topic_id
                file = self._broker.plugin_file(topic, partition, FILE)
                found = VirtualLog(topic, partition, topic_id, self._broker, self._clock, file)
                await found.open()
                self._open[topic, partition] = found
                self._close_some()
            return found
        finally:
            self._opening.release()

    def _current(self, topic: str, partition: int) -> VirtualLog | None:
        """
        The open one; None if there is none, or if it is a deleted topic's.

        :raise ApiError: as :meth:`get`.
        """
        leadership = self._broker.leadership(topic, partition)
        found = self._open.get((topic, partition))
        if leadership.broker_id != self._broker.broker_id:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {leadership.broker_id} leads {topic}-{partition}, not this one",
            )
        if found is None:
            return None
        if found.topic_id != leadership.topic_id:
            del self._open[topic, partition]
            return None
        self._open.move_to_end((topic, partition))
        return found

    def _close_some(self) -> None:
        while len(self._open) > self.most_open:
            self._open.popitem(last=False)[1].close()

    def close(self) -> None:
        """Close all."""
        while self._open:
            self._open.popitem()[1].close()
