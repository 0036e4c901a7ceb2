"""A Deferred that can be cancelled without cancelling the work it waits for."""

from __future__ import annotations

from twisted.internet.defer import Deferred

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
