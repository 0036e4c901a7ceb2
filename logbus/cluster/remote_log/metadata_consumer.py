"""
Reads one partition of ``__remote_log_metadata``: from this broker's replica, or else from its leader.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from logbus.cluster.remote_log.metadata_requests import States
from logbus.cluster.replication.replica_manager import Replica
from logbus.errors import ApiError, DecodeError, StorageError
from logbus.model import REMOTE_LOG_METADATA_TOPIC
from logbus.records.batch import decode_batch, iter_batches

IDLE_SECONDS = 1.0
"""Between two reads of a partition that had nothing new, where no local replica tells of it."""

Read = Callable[[int, int], Awaitable[States]]
"""Reads a partition from an offset on."""

End = Callable[[int], Awaitable[int]]
"""Finds where a partition ends: at least as far as anything that its leader let anybody read."""

Apply = Callable[[bytes | None, bytes | None], None]
"""Takes over a record's key and value; raises DecodeError."""


@define(eq=False)
class MetadataConsumer:
    """
    The reader of one partition.

    :ivar number: of the partition.
    :ivar offset: everything before it was applied.
    """

    number: int
    _read: Read
    _find_end: End
    _apply: Apply
    _find: Callable[[], Replica | None]
    _clock: IReactorTime
    offset: int = field(default=0, init=False)
    _waiting: list[tuple[int, Deferred[None]]] = field(factory=list, init=False)
    _pause: Deferred[None] | None = field(default=None, init=False)
    _timer: IDelayedCall | None = field(default=None, init=False)
    _problem: str = field(default="", init=False)
    _log = Logger()

    async def end(self) -> int:
        """
        Where the partition ends now.

        Before what was read, where an unclean election lost records, or the topic was deleted and made anew: then it
        is read again from its start, as states were appended since where others had been.

        :raise ApiError: that cannot be told now.
        """
        read = self.offset
        end = await self._find_end(self.number)
        if end < read:
            self._log.warn(
                "{topic}-{number} ends at {end}, and was read up to {read}: it is read again from its start",
                topic=REMOTE_LOG_METADATA_TOPIC, number=self.number, end=end, read=read,
            )  # fmt: skip
            self.offset = 0
            self.wake()
        return end

    def reached(self, offset: int) -> Deferred[None]:
        """Fires when everything before an offset was applied; may be cancelled."""
        if self.offset >= offset:
            return succeed(None)
        entry: tuple[int, Deferred[None]]
        waiting: Deferred[None] = Deferred(lambda _: self._waiting.remove(entry))
        entry = (offset, waiting)
        self._waiting.append(entry)
        self.wake()
        return waiting

    def moved(self, replica: Replica, size: int) -> None:
        """There are new records in the local replica."""
        self.wake()

    def wake(self) -> None:
        """Read again now."""
        pause, self._pause = self._pause, None
        if pause is not None:
            pause.callback(None)

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            try:
                more = await self._turn()
                self._problem = ""
            except CancelledError:
                raise
            except (ApiError, StorageError) as error:
                more = False
                if str(error) != self._problem:
                    self._problem = str(error)
                    self._log.debug("remote log metadata {number}: {error}", number=self.number, error=error)
            except Exception:
                more = False
                self._log.failure("remote log metadata {number}", number=self.number)
            if not more:
                await self._idle()

    async def _turn(self) -> bool:
        """Read once; whether there is more."""
        asked = self.offset
        states = await self._read(self.number, asked)
        if states.end_offset < asked:
            # As far as can be read now, which may be less than could be read of another leader.
            await self.end()
        if self.offset != asked:
            return True
        offset = max(asked, states.offset)
        for position, header in iter_batches(states.data):
            if header.last_offset < offset:
                continue
            for record in [] if header.control else decode_batch(states.data, position, header=header):
                if record.offset >= offset:
                    try:
                        self._apply(record.key, record.value)
                    except DecodeError as problem:
                        self._log.error(
                            "remote log metadata {number}: the record at {offset} is skipped: {problem}",
                            number=self.number, offset=record.offset, problem=problem,
                        )  # fmt: skip
            offset = header.next_offset
        if not states.data:
            offset = max(offset, states.end_offset)
        self.offset = offset
        done = [entry for entry in self._waiting if entry[0] <= offset]
        for entry in done:
            self._waiting.remove(entry)
            entry[1].callback(None)
        return offset < states.end_offset

    async def _idle(self) -> None:
        """Wait for news, or a while."""
        replica = self._find()
        if replica is not None:
            replica.watchers[self] = None
        pause = self._pause = Deferred(lambda _: None)
        timer = self._clock.callLater(IDLE_SECONDS, self.wake)
        try:
            await pause
        finally:
            if self._pause is pause:
                self._pause = None
            if timer.active():
                timer.cancel()
            if replica is not None:
                replica.watchers.pop(self, None)
