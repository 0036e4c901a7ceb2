"""
TxnOffsetCommit (KIP-98, KIP-447): checks the member, adds or verifies the group's partition, and appends the offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, frozen
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.group_offsets import CommittedOffset, offset_commit_change
from logbus.coordination.group_shard import GroupShard
from logbus.coordination.transactions.add_partitions_to_txn_manager import AddPartitionsToTxnManager, RetryBackoff
from logbus.coordination.transactions.transaction_metadata import ProducerIdAndEpoch
from logbus.errors import ApiError, ErrorCode
from logbus.model import OFFSETS_TOPIC, TopicPartition
from logbus.net.request_context import RequestContext

#: The first version of TxnOffsetCommit that adds the group's partition to the transaction by itself (KIP-890).
ADDING_VERSION = 5

#: Errors without an answer from the transaction's coordinator: the client retries.
_UNSAID = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_COORDINATOR})


@frozen
class TxnOffsetCommitter:
    """
    The sender of a TxnOffsetCommit.

    :ivar member_id: empty for a consumer that is not a member, or that the producer does not know.
    :ivar epoch: the generation, or the member epoch; −1 in the same cases.
    :ivar version: of the request.
    :ivar client: whose connection it came by.
    """

    transactional_id: str
    producer: ProducerIdAndEpoch
    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    epoch: int = -1
    version: int = ADDING_VERSION
    client: RequestContext | None = None

    @property
    def adds(self) -> bool:
        """Whether this request adds the group's partition; otherwise AddOffsetsToTxn has added it before."""
        return self.version >= ADDING_VERSION


@define(eq=False)
class TxnOffsetCommits:
    """
    Commits offsets in transactions.

    :param verifies: whether partitions that the producer has added itself are verified
        (``transaction.partition.verification.enable``).
    :param backoff: for retries while the coordinator completes the producer's last transaction.
    """

    _coordinator: GroupCoordinator
    _add_partitions: AddPartitionsToTxnManager
    _verifies: Callable[[], bool]
    _backoff: RetryBackoff

    async def commit(
        self, committer: TxnOffsetCommitter, offsets: Sequence[tuple[TopicPartition, CommittedOffset]]
    ) -> None:
        """
        Commit offsets, all or none; done when they are durable. They are pending until the transaction ends.

        A group that does not exist is created if the committer is not a member.

        :raise ApiError: nothing changed: as :meth:`.GroupCoordinator.shard_of`, :meth:`.Group.check_commit`,
            :meth:`.AddPartitionsToTxnManager.add_or_verify` and :meth:`.StateLog.append`; ILLEGAL_GENERATION instead of
            STALE_MEMBER_EPOCH, COORDINATOR_NOT_AVAILABLE when the transaction's coordinator could not be reached,
            INVALID_COMMIT_OFFSET_SIZE: more than one batch can hold.
        """
        shard = self._coordinator.shard_of(committer.group_id)
        producers = shard.log.replica.log.producers
        producer_id, epoch = committer.producer
        if not producers.open_transaction(producer_id, epoch) and (committer.adds or self._verifies()):
            marker = None
            # If a marker was written meanwhile, the answer may be about a transaction that is over: ask again.
            while marker != producers.last_marker_offset(producer_id):
                marker = producers.last_marker_offset(producer_id)
                await self._add_or_verify(shard, committer)
                if self._coordinator.shard_of(committer.group_id) is not shard:
                    raise ApiError(ErrorCode.NOT_COORDINATOR, "the group was led by another broker meanwhile")
        if producer_id in shard.transactions and not producers.open_transaction(producer_id, epoch):
            # Otherwise these offsets would be mixed with the pending ones.
            raise ApiError(
                ErrorCode.CONCURRENT_TRANSACTIONS,
                f"the end of the last transaction of {committer.transactional_id!r} is not durable yet",
            )
        await self._append(shard, committer, offsets)

    async def _add_or_verify(self, shard: GroupShard, committer: TxnOffsetCommitter) -> None:
        clock = self._coordinator.clock
        until = clock.seconds() + self._backoff.max_seconds
        partition = TopicPartition(OFFSETS_TOPIC, shard.number)
        while True:
            outcomes = await self._add_partitions.add_or_verify(
                committer.transactional_id, *committer.producer, [partition], committer.adds
            )
            code = outcomes[partition]
            if code is ErrorCode.NONE:
                return
            if code is not ErrorCode.CONCURRENT_TRANSACTIONS or not committer.adds or clock.seconds() >= until:
                raise ApiError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE if code in _UNSAID else code,
                    f"{partition} cannot take part in the transaction of {committer.transactional_id!r}: {code.name}",
                )
            await deferLater(clock, self._backoff.seconds)

    def _append(
        self,
        shard: GroupShard,
        committer: TxnOffsetCommitter,
        offsets: Sequence[tuple[TopicPartition, CommittedOffset]],
    ) -> Deferred[None]:
        coordinator, group_id = self._coordinator, committer.group_id
        group = shard.groups.get(group_id)
        if group is None:
            if committer.epoch >= 0:
                raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"there is no group {group_id!r}")
            group = coordinator.manager.classic_group(shard, group_id, committer.client)
        try:
            group.check_commit(
                committer.member_id,
                committer.instance_id,
                committer.epoch,
                committer.version,
                transactional=True,
                partitions=[partition for partition, _ in offsets],
            )
            durable = shard.save_pending(
                committer.producer,
                [offset_commit_change(group_id, partition, offset) for partition, offset in offsets],
                ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
            )
        except ApiError as e:
            if e.code is ErrorCode.STALE_MEMBER_EPOCH:
                # Producers do not know that error.
                raise ApiError(ErrorCode.ILLEGAL_GENERATION, e.message) from e
            raise
        finally:
            coordinator.manager.touched(shard, group)
        coordinator.metrics.commits += len(offsets)
        return durable
