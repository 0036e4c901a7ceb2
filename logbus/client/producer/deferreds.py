"""Deferreds that can be cancelled without cancelling the work they wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.client.producer.record_accumulator import BatchOutcome, ProducerBatch


def all_done(batches: list[ProducerBatch]) -> Deferred[None]:
    """Fires when the outcome of each batch is known."""
    finished: Deferred[None] = Deferred()
    left = len(batches)

    def done(_: BatchOutcome) -> None:
        nonlocal left
        left -= 1
        if not left and not finished.called:
            finished.callback(None)

    for batch in batches:
        batch.when_done(done)
    return finished


def shield(task: Deferred[Any], cancelled: Callable[[], object] = lambda: None) -> Deferred[None]:
    """A Deferred that fires when ``task`` does. Cancelling it calls ``cancelled``, and does not cancel ``task``."""

    def cancel(_: object) -> None:
        cancelled()

    heard: Deferred[None] = Deferred(cancel)

    def pass_on(result: Any) -> Any:
        if heard.called:
            return None
        if isinstance(result, Failure):
            heard.errback(result)
        else:
            heard.callback(None)
        return None

    task.addBoth(pass_on)
    return heard
