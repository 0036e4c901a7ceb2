"""
The registry service of a broker: handles requests on the leader of the log.

Other brokers forward requests to the leader, and retry until the timeout while there is none or it has changed. A
request that may have taken effect is not retried if its answer would be different then.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.errors import ApiError, ErrorCode
from logbus.ilogbus import IBroker
from logbus.net.cancellation import shield_from_cancellation
from logbus.registry.errors import Code, RegistryRefusal
from logbus.registry.limits import RegistryLimits
from logbus.registry.requests import RegistryRequest, RegistryResponse
from logbus.registry.store import RegistryStore

PLUGIN = "registry"
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0

NOT_DONE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    }
)
"""Errors after which the request had no effect, unless the leader changed meanwhile."""


@define(eq=False)
class RegistryService:
    """Answers requests from HTTP and from other brokers."""

    _broker: IBroker
    _limits: RegistryLimits = field(factory=RegistryLimits)
    _store: RegistryStore = field(init=False)
    _log = Logger()

    @_store.default
    def _make_store(self) -> RegistryStore:
        return RegistryStore(self._broker, self._limits)

    @property
    def _clock(self) -> Any:
        return self._broker.reactor

    def answer(self, request: RegistryRequest) -> Deferred[RegistryResponse]:
        """
        Answer a request; errors become error responses.

        The Deferred may be cancelled; a write that has begun is completed nevertheless.
        """
        clock = self._clock
        deadline = clock.seconds() + self._limits.seconds
        timed_out = RegistryRefusal(
            Code.TIMED_OUT,
            f"There was no result within {self._limits.seconds:g} seconds; what was asked for may still happen",
        )
        answered: Deferred[RegistryResponse] = Deferred.fromCoroutine(self._answer(request, deadline))
        answered.addTimeout(self._limits.seconds, clock, lambda _, __: RegistryResponse.refusal(timed_out))
        answered.addErrback(self._failed)
        return answered

    def answer_broker(self, data: bytes) -> Deferred[bytes]:
        """
        Answer another broker, which assumes that this one leads.

        :raise ApiError: (in the Deferred) it does not lead, or failed with an error that the other broker may retry.
        """

        async def perform() -> bytes:
            deadline = self._clock.seconds() + self._limits.seconds
            return (await self._store.perform(RegistryRequest.from_bytes(data), deadline)).as_bytes()

        return Deferred.fromCoroutine(perform())

    def _failed(self, failure: Failure) -> RegistryResponse:
        error = failure.value
        if isinstance(error, CancelledError):
            raise error
        if isinstance(error, ApiError):
            return RegistryResponse.refusal(_refusal(error))
        self._log.failure("the schema registry failed", failure)
        return RegistryResponse.refusal(
            RegistryRefusal(Code.STORE, "The registry met an error, which is in the broker's log")
        )

    async def _answer(self, request: RegistryRequest, deadline: float) -> RegistryResponse:
        pause = FIRST_PAUSE
        doubtful = False
        while True:
            try:
                return await self._once(request, deadline)
            except ApiError as e:
                done_perhaps = e.code not in NOT_DONE
                doubtful = doubtful or (done_perhaps and request.method == "DELETE")
                again = e.code in NOT_DONE or (e.code.retriable and e.code is not ErrorCode.THROTTLING_QUOTA_EXCEEDED)
                if not again or doubtful or self._clock.seconds() + pause >= deadline:
                    raise
            await deferLater(self._clock, pause)
            pause = min(LONGEST_PAUSE, 2 * pause)

    async def _once(self, request: RegistryRequest, deadline: float) -> RegistryResponse:
        leads = self._store.leadership()
        if leads is None:
            # The topic is created with the first schema.
            outcome = await self._store.rehearse(request)
            if not outcome.entries:
                return outcome.answer
            await self._store.create()
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "the topic of the schema registry is being made")
        if leads.broker_id == self._broker.broker_id:
            return await shield_from_cancellation(Deferred.fromCoroutine(self._store.perform(request, deadline)))
        if leads.broker_id < 0:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "no broker leads the topic of the schema registry")
        seconds = max(1.0, deadline - self._clock.seconds())
        data = await self._broker.ask_plugin(leads.broker_id, PLUGIN, request.as_bytes(), seconds)
        return RegistryResponse.from_bytes(data)


def _refusal(error: ApiError) -> RegistryRefusal:
    """Convert an error of Kafka for clients."""
    if error.code is ErrorCode.REQUEST_TIMED_OUT:
        code = Code.TIMED_OUT
    elif error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
        code = Code.BUSY
    elif error.code in (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        code = Code.NO_LEADER
    elif error.code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.UNSUPPORTED_VERSION):
        code = Code.FORWARDING_FAILED
    else:
        code = Code.STORE
    return RegistryRefusal(code, f"{error.code.name}: {error.message}")
