"""
Bugs of replication, each as a patch of the running product.

Each is found by simulated clusters in which things go wrong, within a stated number of seeds, or by a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred

from logbus.cluster.controller import alter_partition, leader_election
from logbus.cluster.controller.broker_incarnations import BrokerIncarnations
from logbus.cluster.controller.fence import Fence
from logbus.cluster.controller.leader_election import ElectionResult, Situation
from logbus.cluster.follower.divergence import TruncateTo
from logbus.cluster.follower.followed_partitions import FollowedPartitions
from logbus.cluster.follower.partition_fetch_state import PartitionFetchState
from logbus.cluster.metadata_update_receiver import MetadataUpdateReceiver
from logbus.cluster.replication.follower_state import NEVER, FollowerState
from logbus.cluster.replication.partition import Partition
from logbus.cluster.replication.partition_reader import PartitionReader
from logbus.cluster.replication.replica import Replica
from logbus.cluster.replication.replica_repair import ReplicaRepair
from logbus.cluster.replication.replica_reports import ReplicaReports
from logbus.cluster.replication.role import Role
from logbus.errors import ApiError
from logbus.model import IsrChange
from logbus.storage import log_flusher, log_linker
from logbus.storage.appends import append_as_follower
from logbus.storage.group_commit import GroupCommit
from logbus.storage.istorage import IDisk
from logbus.storage.log import ReadResult
from logbus.storage.log_linker import LinkedCopy
from logbus.storage.producers.producer_state_manager import ProducerStateManager
from logbus.storage.repair.damage import Damage
from logbus.storage.segments.segment import Segment
from logbus.testing.simulation.settings import Settings
from tests.planted_bugs.bug import Bug
from tests.planted_bugs.share_bugs import SHARE_BUGS
from tests.planted_bugs.transaction_bugs import TRANSACTION_BUGS

USUAL = Settings(seconds=60, between=4)
MOVES = ("kill", "isolate", "freeze", "expire", "cut", "one-way-cut", "cut-off", "restart", "slow-link")
ELECTIONS = evolve(USUAL, kinds=MOVES, between=3)
# Whoever leads is struck, and who leads then, and so on.
FLAPS = evolve(USUAL, kinds=("flap", "expire", "freeze", "slow-link"), between=2, rate=15)
CUTS = ("power-cut", "power-cut-at-step", "blackout", "isolate", "cut", "freeze", "slow-sync")
POWER = evolve(USUAL, kinds=CUTS, between=3)
# Replicas fall out of sync, and their brokers out of the cluster, as soon as can be: leaders stand alone.
ALONE = evolve(USUAL, kinds=("isolate", "kill", "freeze"), between=2, partitions=3, rate=15, lag=2, session_timeout=3)
# Two replicas, one of them without power now and then.
NO_FLUSH = evolve(
    ALONE, brokers=2, replication=2, partitions=2, kinds=("power-cut", "kill"), between=5, flush=False, rate=20, lag=3,
    seconds=90,
)  # fmt: skip
# Disks lose what they said was synced.
LIES = evolve(USUAL, kinds=("lying-disk", "expire", "restart"), between=4, rate=15)
# Disks return other bits than were written.
FLIPS_OF_BITS = evolve(USUAL, kinds=("bit-flip", "expire", "restart"), between=3, rate=15)
# One replica, on a disk that fails.
DISK = evolve(USUAL, brokers=1, replication=1, min_insync=1, kinds=("disk-error", "power-cut"))
# Who was away takes seconds to catch up.
SLOW = evolve(
    NO_FLUSH, flush=True, min_insync=1, partitions=1, kinds=("kill", "expire"), between=4, rate=12, latency=0.02,
    fetch_bytes=1,
)  # fmt: skip


# Workers with one replica hand their logs to one another.
REBALANCES = evolve(
    USUAL, workers=True, replication=1, min_insync=1, kinds=("rebalance", "machine-power-cut", "kill", "restart"),
    between=2, rate=15, seconds=30,
)  # fmt: skip


async def _repair_nothing(self: ReplicaRepair, replica: Replica, damage: Damage, brokers: Sequence[int]) -> None:
    """Damage is found, and stays."""


_ADD = FollowedPartitions.add


def _add_and_cut(self: FollowedPartitions, followed: PartitionFetchState) -> None:
    _ADD(self, followed)
    log = followed.replica.log
    offset = max(followed.replica.high_watermark, log.log_start_offset)
    if offset < log.log_end_offset:
        self._after_divergence(followed, TruncateTo(offset))


def _begin_with_old_positions(self: Partition, log_end_offset: int, now: float) -> None:
    self.epoch_start_offset = log_end_offset
    isr = self.leader_and_isr.isr
    self.followers = {n: FollowerState(n, now if n in isr else NEVER) for n in self._others()}
    for n, follower in self.followers.items():
        if n in isr:
            follower.log_end_offset = log_end_offset


def _count_committed_isr(self: Partition) -> None:
    isr = self.leader_and_isr.isr
    self._counted = tuple(f for f in self.followers.values() if f.broker_id in isr)
    self._alone = self.is_leader and not self._counted and self.has_enough_replicas


def _durable_here(self: Replica) -> Deferred[None] | None:
    return self.log.flush() if self.log.config.flush_before_ack else None


async def _commit_unchecked(self: Fence, ops: Any) -> None:
    await self.store.multi(list(ops))


def _sync_nothing(*_: Any) -> None:
    return None


def _acknowledge_all(self: Replica, error: ApiError) -> None:
    self._acks.reached(self.log.log_end_offset)
    self._deletions.fail(error)


_NEXT_LEADER = leader_election.next_leader


def _anybody(now: Situation, **named: Any) -> ElectionResult | None:
    return _NEXT_LEADER(evolve(now, rules=evolve(now.rules, unclean_allowed=True)), **named)


_ELECTED = leader_election._elected


def _in_the_same_epoch(now: Situation, *args: Any, **named: Any) -> ElectionResult:
    elected = _ELECTED(now, *args, **named)
    return evolve(elected, result=evolve(elected.result, leader_epoch=now.current.leader_epoch))


def _failed_is_done(self: GroupCommit, _: Any, waiters: list[Deferred[None]]) -> None:
    self._done(None, waiters)


def _forget_doubt(self: Partition, change: IsrChange) -> None:
    if self._answered(change):
        self.isr_change.pending = None
        self._recount()


def _read_all(self: Replica, offset: int, max_bytes: int, *, committed: bool, min_one: bool) -> ReadResult:
    return self.log.read(offset, max_bytes, None, min_one)


async def _check_nothing(*_: Any) -> None:
    return None


def _no_producers(self: ProducerStateManager, *_: Any) -> None:
    return None


_LINK = log_linker._link


def _link_all_but_the_first(disk: IDisk, segments: Sequence[Segment], name: str, small: dict[str, bytes]) -> None:
    _LINK(disk, segments[len(segments) > 1 :], name, small)


def _take_unseen(disk: IDisk, copy: LinkedCopy, name: str) -> None:
    disk.take(copy.path, name)


_CONTROLLER = "tests.cluster.controller."
_PARTITION = "tests.cluster.replication.test_partition_isr."

BUGS: dict[str, Bug] = {
    # Found by the simulation.
    "a new follower truncates its log to the high watermark": Bug(
        ((FollowedPartitions, "add", _add_and_cut),), FLAPS, 12, first=8
    ),
    "the leader does not look for divergence": Bug(((PartitionReader, "_diverges", lambda *_: False),), ELECTIONS, 12),
    "acks=all does not wait for the others": Bug(((Replica, "durable", _durable_here),), ELECTIONS, 10),
    "consumers read beyond the high watermark": Bug(((Replica, "read", _read_all),), ELECTIONS, 10, first=3),
    "followers keep no producer state": Bug(((ProducerStateManager, "appended", _no_producers),), ELECTIONS, 10),
    "nothing is synced": Bug(((log_flusher, "sync_all", _sync_nothing),), POWER, 12, first=5),
    "a failed sync counts as done": Bug(((GroupCommit, "_failed", _failed_is_done),), DISK, 10),
    "min.insync.replicas is not checked": Bug(((Role, "has_enough_replicas", True),), ALONE, 15, first=7),
    "a replica that lost its page cache stays in sync": Bug(
        ((BrokerIncarnations, "unclean", lambda self, registered: frozenset()),), NO_FLUSH, 10, first=6
    ),
    "a replica that did not stop cleanly stays in sync": Bug(
        (
            (BrokerIncarnations, "unclean", lambda self, registered: frozenset()),
            (ReplicaReports, "leader_incomplete", lambda self, *_: None),
        ),
        LIES,
        12,
        first=8,
    ),
    "damage is not repaired": Bug(((ReplicaRepair, "_repair_one", _repair_nothing),), FLIPS_OF_BITS, 5),
    "a lagging replica joins the ISR": Bug(((Partition, "_may_join", lambda *_: True),), SLOW, 15, first=8),
    "a replaced leader acknowledges its own records": Bug(
        ((Replica, "_fail_waiters", _acknowledge_all),), ELECTIONS, 20
    ),
    "an election starts no epoch": Bug(((leader_election, "_elected", _in_the_same_epoch),), ELECTIONS, 5),
    "a replica out of sync is elected if no other is there": Bug(
        ((leader_election, "next_leader", _anybody),), SLOW, 10
    ),
    "a log that moves to another worker lacks a segment": Bug(
        ((log_linker, "_link", _link_all_but_the_first), (log_linker, "_take", _take_unseen)), REBALANCES, 5
    ),
    # Found by a test.
    "leader epochs are not compared": Bug(
        ((Role, "check_epoch", lambda *_: None),),
        test="tests.cluster.replication.test_partition.PartitionTests.test_epochs_fence_clients",
    ),
    "a leader that lacks records is not reported": Bug(
        ((ReplicaReports, "leader_incomplete", lambda self, *_: None),),
        test="tests.cluster.test_lost_records.LostRecordsTests.test_undetected_loss_of_the_leader",
    ),
    "a replica that did not stop cleanly counts as complete": Bug(
        ((BrokerIncarnations, "unclean", lambda self, registered: frozenset()),),
        test="tests.cluster.test_lost_records.LostRecordsTests.test_all_are_killed",
    ),
    "a follower acknowledges unsynced records": Bug(
        ((PartitionFetchState, "is_synced", True),),
        test="tests.cluster.test_replication.ThreeBrokersTests.test_flush_before_acknowledgement",
    ),
    "positions of an earlier epoch count": Bug(
        ((Partition, "_begin_leading", _begin_with_old_positions),),
        test=_PARTITION + "HighWatermarkTests.test_moves_only_past_the_start_of_the_epoch",
    ),
    "the high watermark counts the committed ISR only": Bug(
        ((Partition, "_recount", _count_committed_isr),),
        test=_PARTITION + "ExpansionTests.test_requested_replica_counts_before_the_response",
    ),
    "a request to the controller without an answer is forgotten": Bug(
        ((Partition, "unanswered", _forget_doubt),), test=_PARTITION + "ExpansionTests.test_no_answer_does_not"
    ),
    "a controller writes without a fence": Bug(
        ((Fence, "_commit", _commit_unchecked),), test=_CONTROLLER + "test_fence.FenceTests.test_deposed"
    ),
    "eligible leader replicas are not recorded": Bug(
        ((leader_election, "still_eligible", lambda *_: ()), (alter_partition, "still_eligible", lambda *_: ())),
        test=_CONTROLLER + "test_alter_partition.GrantedTests.test_eligible",
    ),
    "metadata updates of a former controller are applied": Bug(
        ((MetadataUpdateReceiver, "_check", _check_nothing),),
        test="tests.cluster.test_metadata_update_receiver.ReceiverTests.test_fencing",
    ),
    "a follower appends damaged batches": Bug(
        ((append_as_follower, "batch_problem", lambda *_: None),),
        test="tests.storage.test_log.AppendTests.test_invalid_batches_from_a_leader",
    ),
    **TRANSACTION_BUGS,
    **SHARE_BUGS,
}
