"""
The log of the registry, read and written on the broker that leads it (Confluent: KafkaStore).

The leader of the topic's only partition is the only writer. It reads the log up to the committed end before each
request and after each write. A new leader waits until its whole log is committed, and reads it from the start; so does
a leader after a write with an unknown outcome.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredLock, maybeDeferred
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.ilogbus import IBroker, Leadership
from logbus.records.record import Record
from logbus.registry.entries import Entry, decode, encode
from logbus.registry.errors import RegistryRefusal
from logbus.registry.limits import RegistryLimits
from logbus.registry.model import TOPIC
from logbus.registry.parsed_schema import SchemaCheck
from logbus.registry.requests import HandlerResult, HandlerSteps, RegistryRequest, RegistryResponse
from logbus.registry.routes import answer
from logbus.registry.state import RegistryState

BATCH_BYTES = 524_288
"""Bytes of records that are written as one batch; a topic takes batches of twice as many, unless it is configured."""
MOST_WARNINGS = 10
"""Warnings about records that are not the registry's."""


@define(eq=False)
class RegistryStore:
    """
    Reads and writes the log while this broker leads it.

    :ivar state: the state at offset ``_next``.
    :ivar _read: the leadership under which the log was read; None: it must be read again.
    """

    _broker: IBroker
    _limits: RegistryLimits
    state: RegistryState = field(factory=RegistryState, init=False)
    _next: int = field(default=0, init=False)
    _read: Leadership | None = field(default=None, init=False)
    _reading: DeferredLock = field(factory=DeferredLock, init=False)
    _writing: DeferredLock = field(factory=DeferredLock, init=False)
    _checking: DeferredLock = field(factory=DeferredLock, init=False)
    _busy: int = field(default=0, init=False)
    _strange: int = field(default=0, init=False)
    _log = Logger()

    @property
    def _clock(self) -> Any:
        return self._broker.reactor

    def leadership(self) -> Leadership | None:
        """Return the known leader of the topic; None: the topic does not exist."""
        try:
            return self._broker.leadership(TOPIC, 0)
        except ApiError as e:
            if e.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return None

    async def create(self) -> None:
        """Create the topic, unless it exists."""
        factor = min(3, len(self._broker.brokers()) or 1)
        configs = {
            "cleanup.policy": "compact",
            "min.insync.replicas": str(max(1, factor - 1)),
            "unclean.leader.election.enable": "false",
            "flush.before.ack": "true",
        }
        try:
            await self._broker.create_topic(TOPIC, 1, configs, factor)
        except ApiError as e:
            if e.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    async def rehearse(self, request: RegistryRequest) -> HandlerResult:
        """Handle a request with an empty state, without writing."""
        return await self._paced(self._steps(request, RegistryState()))

    async def perform(self, request: RegistryRequest, deadline: float) -> RegistryResponse:
        """
        Handle a request; this broker must lead the topic.

        :param deadline: on the reactor's clock; a write does not begin after it.
        :raise ApiError: NOT_LEADER_OR_FOLLOWER: another broker leads; THROTTLING_QUOTA_EXCEEDED: too many requests
            wait; also errors of reading and writing, after which the outcome of the write is unknown.
        """
        if self._busy >= self._limits.requests:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"{self._busy} requests are waiting already")
        self._busy += 1
        try:
            if not request.writes:
                return (await self._paced(self._steps(request, await self._current()))).answer
            await self._writing.acquire()
            try:
                if self._clock.seconds() >= deadline:
                    raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "other writes took too long; nothing was done")
                state = await self._current()
                outcome = await self._paced(self._steps(request, state))
                if outcome.entries:
                    await self._append(outcome.entries, state)
                return outcome.answer
            finally:
                self._writing.release()
        finally:
            self._busy -= 1

    def _steps(self, request: RegistryRequest, state: RegistryState) -> HandlerSteps:
        return answer(request, state, self._limits, self._broker.cluster_id)

    async def _paced(self, steps: HandlerSteps) -> HandlerResult:
        """Run a handler: yields to the reactor at each pause, and runs checks in a thread."""
        problem: RegistryRefusal | None = None
        while True:
            try:
                check = next(steps) if problem is None else steps.throw(problem)
            except StopIteration as e:
                outcome: HandlerResult = e.value
                return outcome
            problem = None
            if check is None:
                await self._turn()
                continue
            try:
                # One at a time: the threads are for the disks.
                await self._checking.run(self._in_thread, check)
            except RegistryRefusal as e:
                problem = e

    def _in_thread(self, check: SchemaCheck) -> Deferred[None]:
        pool = getattr(self._clock, "getThreadPool", None)
        return maybeDeferred(check) if pool is None else deferToThreadPool(self._clock, pool(), check)

    async def _append(self, entries: Sequence[Entry], state: RegistryState) -> None:
        """
        Write what was decided on in a state.

        :raise ApiError: NOT_LEADER_OR_FOLLOWER: it is not the present one: another broker led meanwhile, and may have
            given the same ids; see also :meth:`perform`.
        """
        _, end = await self._broker.settled(TOPIC, 0)
        if self._lead() != self._read or state is not self.state:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"another broker led {TOPIC}-0 meanwhile")
        if self._next < end:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"somebody has a transaction open on {TOPIC}-0; what is behind offset {self._next} is not known",
            )
        written = self._next
        try:
            for number, batch in enumerate(_batches(entries)):
                if number and self._lead() != self._read:
                    raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"another broker leads {TOPIC}-0 now")
                _, base = await self._broker.append(TOPIC, batch, 0, -1)
                written = base + len(batch)
        except BaseException as e:
            # The write may be in the log.
            self._read = None
            if written > self._next and isinstance(e, ApiError):
                # Not one after which the request had no effect.
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"only a part was written to {TOPIC}-0: {e}") from e
            raise
        await self._current()
        if self._next < written:
            self._read = None
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"what was written to {TOPIC}-0 cannot be read yet")

    async def _current(self) -> RegistryState:
        """Return the current state, after reading the log to its end."""
        if self._lead() == self._read and self._catch_up():
            return self.state
        await self._reading.acquire()
        try:
            if self._lead() != self._read:
                await self._read_anew()
            while not self._catch_up():
                await self._turn()
        finally:
            self._reading.release()
        return self.state

    def _lead(self) -> Leadership:
        """
        Return the leadership of this broker.

        :raise ApiError: NOT_LEADER_OR_FOLLOWER: another broker leads.
        """
        leads = self.leadership()
        if leads is None or leads.broker_id != self._broker.broker_id:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {TOPIC}-0")
        return leads

    async def _read_anew(self) -> None:
        self._read = None
        start, end = await self._broker.settled(TOPIC, 0)
        leads = self._lead()
        self.state, self._next, self._strange = RegistryState(), start, 0
        while self._next < end and not self._catch_up():
            await self._turn()
        self._read = leads
        self._log.info(
            "the schema registry has {schemas} schemas of {subjects} subjects",
            schemas=len(self.state.schemas),
            subjects=len(self.state.subjects),
        )

    def _catch_up(self) -> bool:
        """Read the next records; return whether the end is reached."""
        try:
            records, after = self._broker.fetch(TOPIC, 0, self._next)
        except DecodeError as e:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{TOPIC}-0 cannot be read at {self._next}: {e}") from None
        except ApiError:
            self._read = None  # records may have been deleted
            raise
        for record in records:
            self._apply(record)
        done = after == self._next
        self._next = after
        return done

    def _apply(self, record: Record) -> None:
        try:
            entry = decode(record.key, record.value)
        except ValueError as e:
            self._strange += 1
            if self._strange <= MOST_WARNINGS:
                self._log.warn(
                    "{topic}-0 has a record at {offset} that is not the schema registry's: {error}",
                    topic=TOPIC,
                    offset=record.offset,
                    error=e,
                )
            return
        if entry is not None:
            self.state.apply(entry)

    def _turn(self) -> Deferred[None]:
        return deferLater(self._clock, 0)


def _batches(entries: Sequence[Entry]) -> Iterator[list[tuple[bytes, bytes | None]]]:
    """Encode entries as records, batch by batch: all versions of a subject may be more than a batch may have."""
    batch, size = list[tuple[bytes, bytes | None]](), 0
    for entry in entries:
        key, value = encode(entry)
        length = len(key) + len(value or b"")
        if batch and size + length > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append((key, value))
        size += length
    yield batch
