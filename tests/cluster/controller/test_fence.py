"""Fenced writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.controller.fence import BATCH_BYTES, ControllerMoved, Fence
from logbus.metastore.memory_store import MemoryEnsemble, MemoryStore
from logbus.metastore.operations import Check, Create, MultiFailed, Op, OpResult, Set


class FenceTests(SynchronousTestCase):
    """A store with a controller epoch."""

    def setUp(self) -> None:
        self.ensemble = MemoryEnsemble()
        self.store: MemoryStore = self.ensemble.client()
        self.successResultOf(self.store.open())
        self.successResultOf(self.store.create("/controller_epoch", b"1"))
        self.successResultOf(self.store.create("/t"))
        self.fence = Fence(self.store, 0)

    def write(self, *groups: Sequence[Op]) -> Deferred[None]:
        """Write as the controller."""
        return Deferred.fromCoroutine(self.fence.write(groups))

    def test_current(self) -> None:
        """The current controller's writes succeed, and nothing to write is no write."""
        before = self.ensemble.tree.zxid
        self.successResultOf(self.write())
        self.assertEqual(self.ensemble.tree.zxid, before)
        self.successResultOf(self.write([Create("/t/a")], [Create("/t/b")]))
        self.assertEqual(self.ensemble.tree.zxid, before + 1)

    def test_deposed(self) -> None:
        """After another election nothing is written any more."""
        self.successResultOf(self.store.set("/controller_epoch", b"2"))
        self.failureResultOf(self.write([Create("/t/a")]), ControllerMoved)
        self.assertEqual(self.successResultOf(self.store.children("/t")), [])

    def test_other_failures(self) -> None:
        """Other failures of a write are distinguished from a lost controller role."""
        self.failureResultOf(self.write([Set("/none", b"")]), MultiFailed)

    def test_large_writes_are_cut_between_groups(self) -> None:
        """No transaction exceeds the limit, each is fenced, and no group is split."""
        transactions: list[Sequence[Op]] = []

        class Spy(MemoryStore):
            def multi(self, ops: Sequence[Op]) -> Deferred[list[OpResult]]:
                transactions.append(ops)
                return super().multi(ops)

        spy = Spy(self.ensemble)
        self.successResultOf(spy.open())
        groups: Iterable[Sequence[Op]] = (
            (Create(f"/t/{number}", bytes(10_000)), Create(f"/t/{number}/s", bytes(10_000))) for number in range(100)
        )
        self.successResultOf(Deferred.fromCoroutine(Fence(spy, 0).write(groups)))
        self.assertEqual(len(self.successResultOf(self.store.children("/t"))), 100)
        self.assertGreater(len(transactions), 3)
        for ops in transactions:
            self.assertEqual(ops[0], Check("/controller_epoch", 0))
            self.assertEqual(len(ops) % 2, 1)
            self.assertLessEqual(sum(len(op.data) for op in ops if isinstance(op, Create)), BATCH_BYTES)
