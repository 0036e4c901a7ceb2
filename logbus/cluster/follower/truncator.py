"""
Truncates logs of followed partitions, while the other partitions go on fetching.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.follower.divergence import RestartAt, TruncateTo
from logbus.cluster.follower.fetch_settings import ReplicaFetchCounters
from logbus.cluster.follower.partition_fetch_state import PartitionFetchState
from logbus.errors import ApiError, StorageError
from logbus.records.header import first_offset
from logbus.storage.auxiliary_state import AuxiliaryState
from logbus.storage.log_manager import LogManager
from logbus.storage.producers.producer_snapshot import SnapshotCorrupt


@define(eq=False)
class Truncator:
    """
    Truncates logs of partitions that follow one leader.

    :ivar over: called when a log can be appended to again, with the error, or an empty text.
    """

    leader: int
    logs: LogManager
    counters: ReplicaFetchCounters
    over: Callable[[PartitionFetchState, str], object]
    _log = Logger()

    def begin(self, followed: PartitionFetchState, step: TruncateTo | RestartAt) -> None:
        """Begin a truncation, or a restart of the log."""
        self._run(followed, self._truncate(followed, step))

    def begin_behind(self, followed: PartitionFetchState, state: AuxiliaryState) -> None:
        """Begin a log behind what only remote storage has."""

        async def begun() -> None:
            log = followed.replica.log
            self._log.info(
                "{partition}: begun at {offset}, about where the local log of broker {leader} begins; {start} to {end} "
                "are in remote storage; ours ended at {ours}",
                partition=followed.name, offset=state.offset, leader=self.leader, start=state.log_start_offset,
                end=state.offset - 1, ours=log.log_end_offset,
            )  # fmt: skip
            followed.replica.partition.truncated(log.segments[0].base_offset)
            try:
                await self.logs.truncator.restart_behind(followed.name, state)
            except (ApiError, StorageError, SnapshotCorrupt) as e:
                self._over(followed, str(e))
            else:
                self._over(followed)

        self._run(followed, begun())

    def restart_within(self, followed: PartitionFetchState, start: int, records: bytes, high_watermark: int) -> None:
        """
        Begin an empty log with a batch whose first records are below the leader's log start offset.

        :param start: the log start offset, within the batch.
        :param records: the leader's answer: the batch, and perhaps more.
        """

        async def begun() -> None:
            try:
                await self.logs.truncator.restart(followed.name, first_offset(records))
                followed.replica.follow(records, high_watermark)
                followed.replica.log.advance_start(start)
            except (ApiError, StorageError) as e:
                if followed.replica.log.log_end_offset <= start:
                    await self.logs.truncator.restart(followed.name, start)
                self._over(followed, str(e))
            else:
                self._over(followed)

        self._run(followed, begun())

    def _run(self, followed: PartitionFetchState, work: Coroutine[Deferred[Any], Any, None]) -> None:
        followed.is_truncating = True

        def failed(failure: Failure) -> None:
            self._log.failure("truncating {partition}", failure, partition=followed.name)
            self._over(followed, failure.getErrorMessage())

        Deferred.fromCoroutine(work).addErrback(failed)

    def _over(self, followed: PartitionFetchState, problem: str = "") -> None:
        log = followed.replica.log
        followed.replica.partition.truncated(log.log_end_offset, log.log_start_offset)
        followed.truncated()
        self.over(followed, problem)

    async def _truncate(self, followed: PartitionFetchState, step: TruncateTo | RestartAt) -> None:
        name, log = followed.name, followed.replica.log
        self.counters.truncations += 1
        say = self._log.warn
        if step.gives_up:
            self.counters.committed_cut += 1
            say = self._log.error
        say(
            "{partition}: {what} at {offset}, as the log of broker {leader} in epoch {epoch} has it; ours ends at {end}"
            "{committed}",
            partition=name, what="cut" if isinstance(step, TruncateTo) else "begun anew", offset=step.offset,
            leader=self.leader, epoch=followed.leader_epoch, end=log.log_end_offset,
            committed=", and committed records are lost by an unclean election" if step.gives_up else "",
        )  # fmt: skip
        # Consumers must not read the records that are about to go.
        followed.replica.partition.truncated(min(step.offset, log.log_end_offset))
        try:
            if isinstance(step, TruncateTo):
                await self.logs.truncator.truncate({name: step.offset})
            else:
                await self.logs.truncator.restart(name, step.offset)
        except (ApiError, StorageError) as e:
            if isinstance(step, TruncateTo):
                # Where the log is damaged before the cut, it is repaired up to there. One that is begun anew is not
                # read, and nothing of it stays: no repair would help, and where it is to begin says nothing of it.
                followed.replica.diverges = followed.leader_epoch, step.offset
            self._over(followed, str(e))
        else:
            followed.replica.diverges = None
            self._over(followed)
