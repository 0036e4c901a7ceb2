"""
One partition of an internal topic, as its coordinator uses it: changes go in, and come back after a start.

What the records mean is the coordinator's affair: here they are keys and values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import define
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.replicas import Replica
from logbus.errors import ApiError, DecodeError, ErrorCode, LogbusError, StorageError
from logbus.records.batch import BatchBuilder, BatchHeader, check_crc, decode_batch, iter_batches
from logbus.records.compression import Codec

KeyAndValue = tuple[bytes, bytes | None]

Apply = Callable[[bytes | None, bytes | None], None]
"""Takes in one record that was read back; raises DecodeError if it makes no sense."""

RECORDS_A_TURN = 500
"""How many records are taken in before the reactor gets a turn: some milliseconds' worth."""

RETRY_SECONDS = 0.1
"""How long to wait with what cannot be read now."""

MOST_COMPLAINTS = 20
"""How many damaged records of one partition are named in the log, before they are only counted."""

_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


@define
class Loaded:
    """
    What a loading found.

    :ivar records: taken in.
    :ivar skipped: damaged places that were passed over: records, or whole batches.
    :ivar complete: whether it came to the end; it does not if it was called off.
    """

    records: int = 0
    skipped: int = 0
    complete: bool = False


@define(eq=False)
class StateLog:
    """
    The log behind a coordinator's state.

    :ivar replica: of the partition, which this broker leads.
    :ivar codec: how batches are compressed.
    :ivar timeout_ms: how long an append may take to be durable.
    """

    replica: Replica
    clock: IReactorTime
    wall_ms: Callable[[], int]
    codec: Callable[[], Codec]
    timeout_ms: Callable[[], int]
    _log = Logger()

    # Writing.

    def append(self, records: Sequence[KeyAndValue], too_large: ErrorCode) -> Deferred[None]:
        """
        Append records as one batch, now.

        :param too_large: what to say when one batch cannot hold them.
        :return: fires when they are durable on all in-sync replicas.
        :raise ApiError: they were not appended: ``too_large``, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE. The
            Deferred fails with the latter two: it is not known then whether the records will last.
        """
        now_ms = self.wall_ms()
        builder = BatchBuilder(self.codec())
        for key, value in records:
            builder.append(now_ms, key, value)
        return self._write(builder, now_ms, too_large)

    def append_all(self, records: Sequence[KeyAndValue]) -> Iterator[tuple[Sequence[KeyAndValue], Deferred[None]]]:
        """
        Append records that need not stand together, in as many batches as they take.

        :return: lazily, what went into each batch, and when it is durable.
        :raise ApiError: as :meth:`append`: what was not given yet is not appended.
        """
        limit = self.replica.log.config.max_message_bytes
        start = 0
        while start < len(records):
            now_ms = self.wall_ms()
            builder = BatchBuilder(self.codec())
            end = start
            while end < len(records) and builder.room_for(limit, *records[end]):
                builder.append(now_ms, *records[end])
                end += 1
            durable = self._write(builder, now_ms, ErrorCode.UNKNOWN_SERVER_ERROR)
            yield records[start:end], durable
            start = end

    def _write(self, builder: BatchBuilder, now_ms: int, too_large: ErrorCode) -> Deferred[None]:
        try:
            self.replica.append(builder.build(), now_ms, all_in_sync=True)
        except (ApiError, StorageError) as e:
            raise self._refusal(e, too_large) from e
        return self.durable(too_large)

    def durable(self, too_large: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR) -> Deferred[None]:
        """Fires when all that was appended so far is durable; fails as that of :meth:`append`."""
        try:
            durable = self.replica.durable()
        except (ApiError, StorageError) as e:
            return fail(self._refusal(e, too_large))
        if durable is None:
            return succeed(None)

        def refused(failure: Failure) -> None:
            failure.trap(ApiError, StorageError)
            assert failure.value is not None
            raise self._refusal(failure.value, too_large) from failure.value

        seconds = self.timeout_ms() / 1000
        return durable.addTimeout(seconds, self.clock, onTimeoutCancel=self._timed_out).addErrback(refused)

    def _timed_out(self, result: object, seconds: float) -> None:
        name = self.replica.topic_partition
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"{name} was not durable after {seconds:g} s")

    def _refusal(self, error: BaseException, too_large: ErrorCode) -> ApiError:
        """What a client of the coordinator is told when its change could not be written."""
        code = error.code if isinstance(error, ApiError) else ErrorCode.KAFKA_STORAGE_ERROR
        if code in _TOO_LARGE:
            return ApiError(too_large, str(error))
        # As long as the partition is led from here, there is no other coordinator to look for.
        leads = self.replica.partition.is_leader and not isinstance(error, StorageError)
        return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE if leads else ErrorCode.NOT_COORDINATOR, str(error))

    # Reading back.

    async def load(self, apply: Apply, slice_bytes: int, wanted: Callable[[], bool]) -> Loaded:
        """
        Read everything that is in the log now, oldest first, with turns for the reactor in between.

        What is damaged is passed over with a line in the log, and so is what ``apply`` cannot understand: one bad
        record must not cost the state of all others.

        :param slice_bytes: how much is read at a time.
        :param wanted: asked at every turn; False calls it off.
        """
        loaded = Loaded()
        log = self.replica.log
        offset, end, left = log.log_start_offset, log.log_end_offset, RECORDS_A_TURN
        while offset < end:
            try:
                data = self._read(offset, end, slice_bytes, loaded)
            except ApiError as e:
                # No damage: an index is being made anew.
                self._log.warn("{partition}: loading waits: {why}", partition=self.replica.topic_partition, why=e)
                await deferLater(self.clock, RETRY_SECONDS)
                if not wanted():
                    return loaded
                offset = max(offset, log.log_start_offset)
                continue
            at = offset
            for position, header in self._batches(data, offset, loaded):
                # The base offset is not under the CRC; whatever it says, reading goes on forwards.
                if not at <= header.last_offset < end:
                    self._complain(loaded, at, f"a batch claims to end at offset {header.last_offset}")
                    continue
                at = header.last_offset + 1
                left -= self._take_in(data, position, header, apply, loaded)
                if left <= 0:
                    await deferLater(self.clock, 0)
                    if not wanted():
                        return loaded
                    left = RECORDS_A_TURN
            # Behind what cannot be read, the next segment is a place where a batch is known to begin.
            offset = (
                at if at > offset else min((s.base_offset for s in log.segments if s.base_offset > at), default=end)
            )
        loaded.complete = True
        if loaded.skipped > MOST_COMPLAINTS:
            self._log.error(
                "{partition}: {count} damaged places were passed over in all",
                partition=self.replica.topic_partition,
                count=loaded.skipped,
            )
        return loaded

    def _read(self, offset: int, end: int, slice_bytes: int, loaded: Loaded) -> bytes:
        """
        Whole batches from ``offset`` on; nothing, if there is damage.

        :raise ApiError: it cannot be read now.
        """
        try:
            found = self.replica.log.read(offset, slice_bytes, end).data
            return b"" if found is None else found.read()
        except (StorageError, OSError, EOFError) as e:
            self._complain(loaded, offset, str(e))
            return b""

    def _batches(self, data: bytes, offset: int, loaded: Loaded) -> Iterator[tuple[int, BatchHeader]]:
        try:
            yield from iter_batches(data)
        except DecodeError as e:
            self._complain(loaded, offset, f"behind this offset: {e}")

    def _take_in(self, data: bytes, position: int, header: BatchHeader, apply: Apply, loaded: Loaded) -> int:
        """Hand a batch's records on; how many it had, at least 1."""
        try:
            if not check_crc(data, position, header):
                raise DecodeError("the CRC of the batch does not match")
            records = [] if header.control else decode_batch(data, position, header=header)
        except LogbusError as e:
            self._complain(loaded, header.base_offset, str(e))
            return 1
        for record in records:
            try:
                apply(record.key, record.value)
                loaded.records += 1
            except DecodeError as e:
                self._complain(loaded, record.offset, str(e))
            except Exception as e:
                self._log.failure("{partition}: a record cannot be taken in", partition=self.replica.topic_partition)
                self._complain(loaded, record.offset, repr(e))
        return max(1, len(records))

    def _complain(self, loaded: Loaded, offset: int, why: str) -> None:
        loaded.skipped += 1
        if loaded.skipped <= MOST_COMPLAINTS:
            self._log.error(
                "{partition}: damage at offset {offset} is passed over, what it said is lost: {why}",
                partition=self.replica.topic_partition,
                offset=offset,
                why=why,
            )
