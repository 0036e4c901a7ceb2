"""Bugs of transactions, each as a patch of the running product; part of :mod:`tests.planted_bugs.replication_bugs`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, succeed

from logbus.cluster.replication.replica import Replica
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.group_offsets import GroupOffsets
from logbus.coordination.state_log import StateLog
from logbus.coordination.transactions import init_producer_id, state_machine
from logbus.coordination.transactions.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from logbus.coordination.transactions.marker_channel_manager import MarkerChannelManager
from logbus.coordination.transactions.pending_complete_txn import PendingCompleteTxn
from logbus.coordination.transactions.transaction_coordinator import TransactionCoordinator
from logbus.coordination.transactions.transaction_expiration import TransactionExpiration
from logbus.coordination.transactions.transaction_metadata import V1, ProducerIdAndEpoch, TransactionMetadata
from logbus.coordination.transactions.transaction_shard import TransactionShard
from logbus.coordination.transactions.transition import Transition
from logbus.errors import ErrorCode
from logbus.model import TopicPartition
from logbus.records.batch import BatchHeader, Marker
from logbus.storage.log import Log
from logbus.storage.producers import producer_state_manager
from logbus.storage.producers.last_stable_offset import OpenTransactions
from logbus.storage.producers.producer_state_manager import ProducerStateEntry, ProducerStateManager
from logbus.storage.segments.transaction_index import TransactionIndex
from logbus.testing.simulation.settings import TRANSACTIONS, Settings
from tests.planted_bugs.bug import Bug

STRIKES = ("kill-coordinator", "power-cut-coordinator", "kill-participant", "kill-client", "lose-answers")
# Brokers and clients are struck in the middle of transactions.
THREE = Settings(workloads=(TRANSACTIONS,), seconds=15, between=2, rate=25, kinds=STRIKES)
ONE = evolve(THREE, brokers=1, replication=1, min_insync=1, kinds=("kill-coordinator", "kill-client", "lose-answers"))
# Enough for logs that must be cut.
LONG = evolve(THREE, seconds=25, rate=40, between=3)
# Whatever brokers say to each other takes long enough for one of them to die meanwhile.
FAR = evolve(THREE, latency=0.02)


def _nothing_aborted(*_: Any) -> list[Any]:
    return []


_APPEND = StateLog.append


def _durable_at_once(self: StateLog, *args: Any) -> Deferred[None]:
    _APPEND(self, *args).addErrback(lambda _: None)
    return succeed(None)


_ROUTE = MarkerChannelManager._route


def _route_and_forget(
    self: MarkerChannelManager, pending: PendingCompleteTxn, partitions: Collection[TopicPartition]
) -> None:
    _ROUTE(self, pending, partitions)
    pending.left.clear()


def _the_same(now: TransactionMetadata, *_: Any) -> tuple[ProducerIdAndEpoch, int]:
    return now.producer, -1


_BUMPED = init_producer_id._bumped


def _not_bumped(now: TransactionMetadata, now_ms: int, *, goes_on: bool) -> TransactionMetadata:
    return evolve(_BUMPED(now, now_ms, goes_on=goes_on), producer_epoch=now.producer_epoch)


_DECIDED = state_machine._decided


def _decided_as_before(now: TransactionMetadata, commit: bool, client_version: int, *args: Any) -> Transition:
    return _DECIDED(now, commit, V1, *args)


_COMPLETED = GroupCoordinator.transaction_completed


def _always_committed(self: GroupCoordinator, number: int, producer_id: int, committed: bool, *args: Any) -> None:
    _COMPLETED(self, number, producer_id, True, *args)


def _pending_holds(self: GroupOffsets, producer_id: int, record_offset: int, key: Any, value: Any) -> None:
    self.apply(key, value)


async def _load_only(self: TransactionCoordinator, shard: TransactionShard) -> None:
    send, self.markers.send = self.markers.send, lambda *_: None  # type: ignore[method-assign]
    try:
        await _LOAD(self, shard)
    finally:
        self.markers.send = send  # type: ignore[method-assign]


_LOAD = TransactionCoordinator._load


async def _nobody_is_late(self: TransactionExpiration) -> None:
    return None


_TAKE_PART = AddPartitionsToTxnManager.add_or_verify


def _unverified(
    self: AddPartitionsToTxnManager, transactional_id: str, producer_id: int, epoch: int, partitions: Any, add: bool
) -> Any:
    if add:
        return _TAKE_PART(self, transactional_id, producer_id, epoch, partitions, add)
    return succeed(dict.fromkeys(partitions, ErrorCode.NONE))


_APPENDED = ProducerStateManager.appended


def _markers_pass_by(
    self: ProducerStateManager, header: BatchHeader, base_offset: int, marker: Marker | None = None
) -> Any:
    return None if header.control else _APPENDED(self, header, base_offset, marker)


_CUT = TransactionIndex.cut


def _cut_all(self: TransactionIndex, offset: int) -> None:
    _CUT(self, 0)


def _any_epoch(self: ProducerStateManager, entry: ProducerStateEntry, epoch: int) -> None:
    """Whatever comes is as good as any other."""


def _any_producer(*_: Any) -> None:
    """As :func:`_any_epoch`, of who asks the coordinator."""


def _ended_for_good(self: OpenTransactions, producer_id: int, marker_offset: int) -> None:
    del self._open[producer_id]


_CHECK_MARKER = ProducerStateManager.check_marker


def _any_coordinator(
    self: ProducerStateManager, producer_id: int, producer_epoch: int, marker: Marker, transaction_version: int
) -> None:
    _CHECK_MARKER(self, producer_id, producer_epoch, marker._replace(coordinator_epoch=2**31 - 1), transaction_version)


_STORY = "tests.transactions.test_transactions.TransactionTests."
_MARKERS = "tests.storage.producers.test_aborted_transactions.MarkerTests."
_STEPS = "tests.transactions.test_transactions.StepTests."

TRANSACTION_BUGS: dict[str, Bug] = {
    "readers do not stop at open transactions": Bug(
        ((Replica, "last_stable_offset", property(lambda self: self.high_watermark)),), ONE, 3
    ),
    "readers get no list of aborted transactions": Bug(((Log, "aborted_transactions", _nothing_aborted),), ONE, 3),
    "a coordinator's writes count as durable at once": Bug(
        ((StateLog, "append", _durable_at_once),), test=_STEPS + "test_moved"
    ),
    "a transaction is complete before its markers are written": Bug(
        ((MarkerChannelManager, "_route", _route_and_forget),), FAR, 25, first=2
    ),
    "a restarted producer gets the same epoch": Bug(((init_producer_id, "_next_producer", _the_same),), ONE, 4),
    "a producer keeps its epoch when its transaction is aborted": Bug(
        ((init_producer_id, "_bumped", _not_bumped),), test=_STORY + "test_left_open"
    ),
    "the next transaction has the same epoch": Bug(
        ((state_machine, "_decided", _decided_as_before),), test=_STORY + "test_commit_and_abort"
    ),
    "offsets of aborted transactions are committed": Bug(
        ((GroupCoordinator, "transaction_completed", _always_committed),), ONE, 4
    ),
    "pending offsets count as committed": Bug(((GroupOffsets, "apply_pending", _pending_holds),), ONE, 4),
    "a new coordinator sends no markers": Bug(((TransactionCoordinator, "_load", _load_only),), THREE, 3),
    "transactions do not expire": Bug(
        ((TransactionExpiration, "abort_overdue", _nobody_is_late),), test=_STORY + "test_left_open"
    ),
    "writes are not verified": Bug(
        ((AddPartitionsToTxnManager, "add_or_verify", _unverified),), test=_STORY + "test_late_requests_of_version_1"
    ),
    "followers ignore markers": Bug(((ProducerStateManager, "appended", _markers_pass_by),), THREE, 3),
    "truncation empties the transaction index": Bug(((TransactionIndex, "cut", _cut_all),), LONG, 10, first=4),
    "producer epochs are not compared": Bug(
        ((ProducerStateManager, "_check_epoch", _any_epoch),), test=_MARKERS + "test_the_next_epoch"
    ),
    "markers of a replaced coordinator are accepted": Bug(
        ((ProducerStateManager, "check_marker", _any_coordinator),), test=_MARKERS + "test_a_replaced_coordinator"
    ),
    "a decision counts before its marker is committed": Bug(
        ((OpenTransactions, "ended", _ended_for_good),),
        test="tests.storage.producers.test_aborted_transactions.LastStableOffsetTests.test_the_marker_must_be_committed",
    ),
    "only the last batch of a producer is known": Bug(
        ((producer_state_manager, "KEPT_BATCHES", 1),),
        test="tests.storage.producers.test_producer_state_manager.SequenceTests.test_duplicates",
    ),
    "late batches join the next transaction": Bug(
        ((ProducerStateManager, "_check_epoch", _any_epoch), (state_machine, "check_producer", _any_producer)),
        test=_STORY + "test_late_requests_of_version_2",
    ),
}
