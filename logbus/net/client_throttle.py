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


@define(eq=False)
class ClientThrottle:
    """
    What the clients of one connection owe. It is used only while somebody has a quota.

    Processor time is measured from one request of a turn to the next, so that each pays for reading and answering it;
    what is done for a request in a later time slice is charged when the slice ends.
    """

    _quotas: QuotaManagers
    _flow: FlowControl
    # The thread's processor time when it was last charged; None: in no turn, or nobody has a quota of it.
    _charged: float | None = field(default=None, init=False)

    def begin_turn(self) -> None:
        """The connection begins to serve requests."""
        active = self._quotas.request.is_active
        self._charged = self._quotas.processor_seconds() if active else None

    def end_turn(self, context: RequestContext) -> None:
        """The connection ends its turn: charge what was done since the last request was answered."""
        if self._charged is not None:
            if context.broker is None:
                self._charge(context, self._lap())
            self._charged = None

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
                self._charge(context, self._lap())
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
        if self._charged is not None:
            user, amount = quota_user(context.principal), self._lap() * _PER_CENT
            return max(seconds, self._quotas.request.record(user, context.client_id, amount))
        return seconds

    def _lap(self) -> float:
        """The seconds of processor time since this was last called in this turn."""
        assert self._charged is not None
        now = self._quotas.processor_seconds()
        before, self._charged = self._charged, now
        return now - before

    def _charge(self, context: RequestContext, seconds: float) -> None:
        self._quotas.request.add(quota_user(context.principal), context.client_id, seconds * _PER_CENT)


def _ms(seconds: float) -> int:
    return math.ceil(seconds * 1000)
