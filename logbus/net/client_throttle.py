"""
Charges the requests of one connection to the quotas of their clients, and mutes it while its client is over one.

As in Kafka (KIP-219) the response comes at once and says for how long the client should wait (``throttle_time_ms``);
for so long the connection is muted, too, for clients that do not. Of several quotas the longest wait counts.

What a handler has put in ``throttle_time_ms`` of its response, as Fetch does, counts like the wait for another quota.
Connections of brokers are exempt.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.net.flow_control import FlowControl
from logbus.net.request_context import RequestContext, quota_user
from logbus.quotas.quota_managers import QuotaManagers
from logbus.wire.connection import Request
from logbus.wire.request_template import PRODUCE, CoalescedProduce
from logbus.wire.throttle_time import with_throttle_time, with_throttle_times

_PER_CENT = 100.0

LEAST_SECONDS = 0.0005
"""Processor time is recorded in portions of this at least: to find the quota for each small request costs more."""


@define(eq=False)
class ClientThrottle:
    """
    Throttles the clients of one connection by their quotas. It is used only while somebody has a quota.

    Processor time is measured from one request of a turn to the next, so that each pays for reading and answering it;
    what is done for a request in a later time slice is charged when the slice ends.
    """

    _quotas: QuotaManagers
    _flow: FlowControl
    # The thread's processor time when it was last charged; None: in no turn, or nobody has a quota of it.
    _charged: float | None = field(default=None, init=False)
    # When that was; below LEAST_SECONDS later the thread's processor time, which is dearer to read, is no use yet.
    _at: float = field(default=0.0, init=False)
    # Processor time that is not recorded yet, and who took it.
    _unrecorded: float = field(default=0.0, init=False)
    _taker: RequestContext | None = field(default=None, init=False)

    def begin_turn(self) -> None:
        """The connection begins to serve requests."""
        self._charged = None
        if self._quotas.request.is_active:
            self._charged, self._at = self._quotas.processor_seconds(), self._quotas.wall_seconds()

    def end_turn(self, context: RequestContext) -> None:
        """The connection ends its turn: charge what was done since the last request was answered."""
        if self._charged is not None:
            if context.broker is None:
                self._lap(context)
            self._charged = None

    def flush(self) -> None:
        """Record what is not recorded yet; when the connection ends, too."""
        if self._unrecorded and self._taker is not None:
            self._charge(self._taker, self._unrecorded)
            self._unrecorded = 0.0

    def serve(self, context: RequestContext, request: Request, router: Callable[[RequestContext, Request], Any]) -> Any:
        """Have a request served, and charge it; returns the answer, with the time for which the client must wait."""
        if context.broker is not None:
            return router(context, request)
        if self._quotas.request.is_active:
            request.charge = partial(self._charge, context)
        answer = router(context, request)
        # As in the dispatcher, bytes are checked first.
        if answer.__class__ is bytes or not isinstance(answer, Deferred):
            return self._answered(answer, request, self._owed(context, request))
        if request.api_key != PRODUCE:
            if self._charged is not None:
                self._lap_if_long(context)
            return answer.addCallback(self._answered_later, context, request)
        if seconds := self._owed(context, request):
            # Later requests may overlap one that waits for its acks, but must not.
            self._flow.mute(seconds)
            answer.addCallback(with_throttle_time, request.api_key, request.api_version, _ms(seconds))
        return answer

    def most_bytes(self, context: RequestContext, most: int) -> int:
        """Bytes of Produce requests that should be served together: no more than the client gets at once."""
        if context.broker is None and self._quotas.produce.is_active:
            quota = self._quotas.produce.most(quota_user(context.principal), context.client_id)
            if quota is not None and quota < most:
                return int(quota)
        return most

    def served_run(
        self, context: RequestContext, run: CoalescedProduce, answer: bytes | Deferred[bytes]
    ) -> bytes | Deferred[bytes]:
        """Charge Produce requests that were served together, as :meth:`serve`."""
        if context.broker is not None or not (seconds := self._owed(context, run)):
            return answer
        self._flow.mute(seconds)
        version = run.template.api_version
        if isinstance(answer, bytes):
            return with_throttle_times(answer, run.api_key, version, _ms(seconds))
        return answer.addCallback(with_throttle_times, run.api_key, version, _ms(seconds))

    def _answered(self, answer: Any, request: Request, seconds: float) -> Any:
        ms = max(_ms(seconds), getattr(answer, "throttle_time_ms", 0))
        if not ms:
            return answer
        self._flow.mute(ms / 1000)
        return with_throttle_time(answer, request.api_key, request.api_version, ms)

    def _answered_later(self, answer: Any, context: RequestContext, request: Request) -> Any:
        seconds = 0.0
        if self._quotas.request.is_active:
            seconds = self._quotas.request.wait(quota_user(context.principal), context.client_id)
        return self._answered(answer, request, seconds)

    def _owed(self, context: RequestContext, request: Request | CoalescedProduce) -> float:
        """Charge a request; the seconds for which its client must wait."""
        seconds = 0.0
        if request.api_key == PRODUCE and self._quotas.produce.is_active:
            user = quota_user(context.principal)
            seconds = self._quotas.produce.record(user, context.client_id, request.size)
        if self._charged is not None and self._lap_if_long(context):
            return max(seconds, self._quotas.request.wait(quota_user(context.principal), context.client_id))
        return seconds

    def _lap_if_long(self, context: RequestContext) -> bool:
        """Note the processor time of this turn, if it can be enough to be recorded."""
        if self._quotas.wall_seconds() - self._at < LEAST_SECONDS:
            return False
        self._lap(context)
        return True

    def _lap(self, context: RequestContext) -> None:
        """Note the processor time since this was last called in this turn, and record it when it is enough."""
        assert self._charged is not None
        if context is not self._taker:
            self.flush()
            self._taker = context
        now = self._quotas.processor_seconds()
        self._unrecorded += now - self._charged
        self._charged, self._at = now, self._quotas.wall_seconds()
        if self._unrecorded >= LEAST_SECONDS:
            self.flush()

    def _charge(self, context: RequestContext, seconds: float) -> None:
        self._quotas.request.add(quota_user(context.principal), context.client_id, seconds * _PER_CENT)


def _ms(seconds: float) -> int:
    return math.ceil(seconds * 1000)
