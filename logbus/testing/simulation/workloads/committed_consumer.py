"""Readers of committed records, and of groups' stable offsets."""

from __future__ import annotations

import struct
from typing import ClassVar

from attrs import define, field

from logbus.errors import DecodeError, ErrorCode, LogbusError
from logbus.testing.simulation.checks.history import Anomaly
from logbus.testing.simulation.checks.read_committed import committed_records
from logbus.testing.simulation.workloads.client_router import GROUP, RETRIABLE, ClientRouter
from logbus.testing.simulation.workloads.cluster_client import Unavailable, name_of
from logbus.testing.simulation.workloads.consumer import Consumer, WorkloadContext
from logbus.wire.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from logbus.wire.messages.records import PartitionData


@define(eq=False)
class CommittedConsumer(Consumer):
    """
    Reads one partition at the isolation level ``read_committed``, and drops aborted records.

    :ivar stable_end: the last stable offset, by the last answer.
    :ivar hidden: the number of records of aborted transactions that it got.
    """

    isolation: ClassVar[int] = 1

    stable_end: int = field(default=-1, init=False)
    hidden: int = field(default=0, init=False)

    @property
    def is_stable(self) -> bool:
        """Whether it has read everything, and no transaction was open when it last asked."""
        return self.is_at_the_end and self.stable_end == self.end

    def _check_answer(self, answer: PartitionData) -> None:
        self.stable_end = answer.last_stable_offset
        now = self.view.reactor.seconds()
        where = f"{self.name} at {self.position} of partition {self.partition} at {now:.3f}"
        if not 0 <= answer.last_stable_offset <= answer.high_watermark:
            self._strange(
                "unstable",
                f"{where}: the last stable offset is {answer.last_stable_offset}, the high watermark "
                f"{answer.high_watermark}",
            )
        aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
        if aborted != sorted(aborted, key=lambda each: each[1]):
            self._strange("unstable", f"{where}: aborted transactions are not in order: {aborted}")
        try:
            seen = committed_records(self._content(answer), aborted)
            found = [
                (record.offset, struct.unpack(">q", record.value or b"")[0])
                for record in seen.records
                if record.offset >= self.position
            ]
        except (DecodeError, struct.error) as error:
            self._strange("damaged-read", f"{where}: {error}")
            return
        end = self.position if seen.next_offset is None else seen.next_offset
        if end > max(answer.last_stable_offset, self.position):
            self._strange("unstable", f"{where}: shown up to {end}, stable up to {answer.last_stable_offset}")
        self.hidden += seen.hidden
        self._note(found, end)

    def _strange(self, kind: str, what: str) -> None:
        self.job.strange.append(Anomaly(kind, what, self.partition, self.view.reactor.seconds()))


async def stable_offset(
    router: ClientRouter, group_id: str, topic: str, partition: int, job: WorkloadContext, patience: float
) -> int | None:
    """
    The offset of a group, once no transaction that would change it is open.

    :param patience: seconds to retry.
    :returns: −1: there is none; None: no broker answered.
    """
    deadline = router.now + patience
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)], require_stable=True
    )
    while router.now < deadline:
        try:
            answer: OffsetFetchResponse = await router.ask_coordinator(GROUP, group_id, request, 8)
        except (LogbusError, Unavailable) as error:
            job.errors[type(error).__name__] += 1
            await router.pause()
            continue
        group = answer.groups[0]
        code = group.error_code
        if not code:
            found = group.topics[0].partitions[0]
            code = found.error_code
            if not code:
                return found.committed_offset
        job.errors[name_of(code)] += 1
        if code not in RETRIABLE:
            job.strange.append(
                Anomaly("refused", f"the offset of {group_id} was refused: {name_of(code)}", -1, router.now)
            )  # fmt: skip
            return None
        if code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
            router.moved(GROUP, group_id)
        await router.pause()
    return None
