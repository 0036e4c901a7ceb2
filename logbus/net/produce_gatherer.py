"""
Gathers the small Produce requests of several connections, so that those for one partition are appended by one write.

When a poll finds more than one connection readable, a connection whose buffer holds nothing but a run of small, equal
Produce requests leaves it here, unconsumed. The runs are served when the last of these connections was read, or
before anything else is served: so no request overtakes another, and a run waits only while others are received. The
bytes stay in the connections' own buffers, which receive nothing meanwhile.

If runs cannot be appended together, each is served by its own connection, as if it had not been left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol as Shape
from typing import TypeAlias

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.net.read_turn import ReadTurn
from logbus.net.request_context import RequestContext
from logbus.wire.request_template import CoalescedProduce

LARGEST_RUN = 1 << 14
"""Bytes of a run that may be left: a larger one costs more to write than to be served by itself."""

MAX_BATCHES = 64
"""After so many batches all are served, so that the first does not wait for long."""

GatheredRuns: TypeAlias = Sequence[tuple[RequestContext, CoalescedProduce]]
GatheredProduceRouter: TypeAlias = Callable[[GatheredRuns], "list[bytes | Deferred[bytes]] | None"]
"""
Serves runs for one partition together; returns the encoded responses of each, or Deferreds of them. None: nothing was
done, and each run must be served by itself.
"""


class RunOwner(Shape):
    """The connection that a run came from."""

    def finish_run(self, run: CoalescedProduce, answer: bytes | Deferred[bytes] | None) -> None:
        """Answer the run; None: serve it."""

    def request_failed(self, failure: Failure) -> None:
        """The run has no response, for a bug; the connection must be closed."""


Groups: TypeAlias = (
    "dict[tuple[GatheredProduceRouter, object], list[tuple[RequestContext, CoalescedProduce, RunOwner]]]"
)
"""By router and partition."""


def may_be_gathered(run: CoalescedProduce) -> bool:
    """Whether these requests may be appended with those of other connections: small ones outside of transactions."""
    return run.size <= LARGEST_RUN and run.template.transactional_id is None


@define(eq=False)
class ProduceGatherer:
    """The runs that wait for the end of a turn, by partition."""

    _turn: ReadTurn
    _groups: Groups = field(factory=dict, init=False)
    _count: int = field(default=0, init=False)

    def add(
        self, router: GatheredProduceRouter, context: RequestContext, run: CoalescedProduce, owner: RunOwner
    ) -> None:
        """Leave a run; its owner keeps the frames in place until it is called."""
        count = len(run.batches)
        if self._count + count > MAX_BATCHES or (self._turn.finish is not None and not self._count):
            # What is left may be another broker's, where several are in one reactor.
            self._turn.end()
        self._groups.setdefault((router, run.template.partition), []).append((context, run, owner))
        self._count += count
        self._turn.finish = self._finish

    def _finish(self) -> None:
        groups, self._groups, self._count = self._groups, {}, 0
        responses = self._turn.responses
        opened = responses.open()
        try:
            self._serve(groups)
        finally:
            if opened:
                responses.close()

    def _serve(self, groups: Groups) -> None:
        for (router, _), left in groups.items():
            answers: Sequence[bytes | Deferred[bytes] | None] | None = None
            if len(left) > 1:
                try:
                    answers = router([(context, run) for context, run, _ in left])
                except Exception:
                    # Perhaps they are written: no connection may have them written again.
                    for _, _, owner in left:
                        owner.request_failed(Failure())
                    continue
            for (_, run, owner), answer in zip(left, answers or [None] * len(left), strict=True):
                try:
                    owner.finish_run(run, answer)
                except Exception:
                    owner.request_failed(Failure())
