"""
Produce requests that only differ in their batches: appended together, and answered without a message being built.

They ask for acks=1, so each answer is there at once. If something is the matter with one of them, each is served by
itself, in order: it is answered, and the log is, as if they had come alone.
"""

from __future__ import annotations

from attrs import define

from logbus.errors import ApiError
from logbus.handlers.produce import ProduceHandlers
from logbus.handlers.routing import serves_runs
from logbus.net.context import RequestContext
from logbus.records.checksum import Buffer
from logbus.wire.repeats import Refrain, Run


@define(eq=False)
class ProduceRuns:
    """Serves runs of Produce requests, with what serves single ones."""

    _produce: ProduceHandlers

    @serves_runs(0)
    def run(self, context: RequestContext, run: Run) -> bytes:
        produce, refrain, batches = self._produce, run.refrain, run.batches
        now_ms = produce.now_ms()
        if len(batches) > 1 and (topic := self._topic(refrain)):
            written = produce.append_together(topic, refrain.index, batches, now_ms, refrain.api_version)
            if written is not None:
                spell, start, offsets = refrain.written, written.log_start_offset, written.base_offsets
                return b"".join(
                    [spell(id, offset, -1, start) for id, offset in zip(run.correlation_ids, offsets, strict=True)]
                )
        return b"".join(
            [
                self._one(context, refrain, id, data, now_ms)
                for id, data in zip(run.correlation_ids, batches, strict=True)
            ]
        )

    def _topic(self, refrain: Refrain) -> str:
        """The topic's name; empty if it is not known."""
        try:
            return self._produce.topic_name(refrain.topic, refrain.topic_id, refrain.index, refrain.api_version)
        except ApiError:
            return ""

    def _one(self, context: RequestContext, refrain: Refrain, correlation_id: int, data: Buffer, now_ms: int) -> bytes:
        produce, topic, index, version = self._produce, refrain.topic, refrain.index, refrain.api_version
        try:
            topic = produce.topic_name(topic, refrain.topic_id, index, version)
            _, appended = produce.append(topic, index, data, now_ms, version)
        except ApiError as e:
            produce.refused += 1
            response = produce.refusals.one(context.listener, topic, index, e, version, refrain.topic_id)
            return refrain.refused(correlation_id, response)
        return refrain.written(
            correlation_id, appended.base_offset, appended.log_append_time, appended.log_start_offset
        )
