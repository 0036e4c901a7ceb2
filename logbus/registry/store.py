"""
The log of the registry, on the broker that leads it.

There is one writer: the leader of the topic's only partition. What it answers is what the log says: it reads the log to
the end of what is committed before each request, and behind each write. A new leader waits until all that it has is
committed, and reads it from the start; so does one that does not know what became of a write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredLock, maybeDeferred
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.ilogbus import IBroker, Leadership
from logbus.registry.entries import Entry, decode, encode
from logbus.registry.errors import RegistryRefusal
from logbus.registry.limits import RegistryLimits
from logbus.registry.parsed_schema import SchemaCheck
from logbus.registry.requests import HandlerResult, HandlerSteps, RegistryRequest, RegistryResponse
from logbus.registry.routes import answer
from logbus.registry.state import RegistryState

if TYPE_CHECKING:
    from logbus.records.record import Record

TOPIC = "_schemas"

MOST_WARNINGS = 10
"""Records that are named in the log for not being the registry's."""


@define(eq=False)
class RegistryStore:
    """
    :ivar state: what the log says up to ``_next``.
    :ivar _read: the leadership in which it was read; None: it has to be read anew.
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
        """Who leads the topic, as far as is known here; None: there is no topic."""
        try:
            return self._broker.leadership(TOPIC, 0)
        except ApiError as e:
            if e.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return None

    async def create(self) -> None:
        """Make the topic, unless somebody was quicker."""
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
        """What would become of a request, if nothing were in the log."""
        return await self._paced(self._steps(request, RegistryState()))

    async def perform(self, request: RegistryRequest, deadline: float) -> RegistryResponse:
        """
        Carry a request out, which this broker must lead the topic for.

        :param deadline: on the reactor's clock; what has not begun by then is not begun.
        :raise ApiError: NOT_LEADER_OR_FOLLOWER: another broker leads; THROTTLING_QUOTA_EXCEEDED: too many requests
            wait; and what reading and writing raises. It is not known then whether something was written.
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
                outcome = await self._paced(self._steps(request, await self._current()))
                if outcome.entries:
                    await self._append(outcome.entries)
                return outcome.answer
            finally:
                self._writing.release()
        finally:
            self._busy -= 1

    def _steps(self, request: RegistryRequest, state: RegistryState) -> HandlerSteps:
        return answer(request, state, self._limits, self._broker.cluster_id)

    async def _paced(self, steps: HandlerSteps) -> HandlerResult:
        """Carry out, with a turn of the reactor at each pause, and with what takes long in a thread."""
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
                # One at a time: the threads are there for the disks.
                await self._checking.run(self._in_thread, check)
            except RegistryRefusal as e:
                problem = e

    def _in_thread(self, check: SchemaCheck) -> Deferred[None]:
        pool = getattr(self._clock, "getThreadPool", None)
        return maybeDeferred(check) if pool is None else deferToThreadPool(self._clock, pool(), check)

    async def _append(self, entries: Sequence[Entry]) -> None:
        _, end = await self._broker.settled(TOPIC, 0)
        if self._next < end:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"somebody has a transaction open on {TOPIC}-0; what is behind offset {self._next} is not known",
            )
        try:
            _, base = await self._broker.append(TOPIC, [encode(each) for each in entries], 0, -1)
        except BaseException:
            # It may be in the log, and may last.
            self._read = None
            raise
        await self._current()
        if self._next < base + len(entries):
            self._read = None
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"what was written to {TOPIC}-0 cannot be read yet")

    async def _current(self) -> RegistryState:
        """What the log says by now."""
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
        """:raise ApiError: NOT_LEADER_OR_FOLLOWER: another broker leads."""
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
        """Read on; whether there was nothing more."""
        try:
            records, after = self._broker.fetch(TOPIC, 0, self._next)
        except DecodeError as e:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{TOPIC}-0 cannot be read at {self._next}: {e}") from None
        except ApiError:
            self._read = None  # Somebody may have deleted records.
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
