"""Truncation of a follower's log that diverges: the logs agree again, and no committed record is lost."""

from __future__ import annotations

from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.follower.divergence import (
    FollowerLog,
    RefuseToFollow,
    RestartAt,
    RetryLater,
    TruncateTo,
    after_divergence,
    after_out_of_range,
)
from logbus.model import OffsetAndEpoch
from logbus.storage.leader_epoch_cache import LeaderEpochCache


def history(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(entries)


class StepTests(SynchronousTestCase):
    """Single answers."""

    def own(self, *entries: tuple[int, int], end: int = 20, committed: int = 0, unclean: int = -1) -> FollowerLog:
        return FollowerLog(0, end, committed, history(*entries), unclean)

    def test_both_have_the_epoch(self) -> None:
        """The shorter of the two ends of that epoch is where the logs part."""
        own = self.own((1, 0), (2, 10))
        self.assertEqual(after_divergence(own, OffsetAndEpoch(15, 2)), TruncateTo(15))
        self.assertEqual(after_divergence(own, OffsetAndEpoch(12, 1)), TruncateTo(10))
        self.assertEqual(after_divergence(own, OffsetAndEpoch(7, 1)), TruncateTo(7))

    def test_unknown_epoch(self) -> None:
        """The log is truncated after the last epoch below it; the next round compares that one."""
        own = self.own((1, 0), (4, 10))
        self.assertEqual(after_divergence(own, OffsetAndEpoch(15, 3)), TruncateTo(10))
        self.assertEqual(after_divergence(self.own((4, 0)), OffsetAndEpoch(15, 3)), RestartAt(0))

    def test_committed_records_stay(self) -> None:
        """A cut below the high watermark is refused..."""
        own = self.own((1, 0), (2, 10), committed=16)
        self.assertEqual(after_divergence(own, OffsetAndEpoch(16, 2)), TruncateTo(16))
        refused = after_divergence(own, OffsetAndEpoch(15, 2))
        assert isinstance(refused, RefuseToFollow)
        self.assertIn("everything below 16 is committed (epoch 2)", refused.reason)
        self.assertIsInstance(after_divergence(self.own((4, 0), committed=1), OffsetAndEpoch(15, 3)), RefuseToFollow)

    def test_after_an_unclean_election(self) -> None:
        """...unless an unclean election gave them up: one after they were written, not one before."""
        for unclean, step in ((1, RefuseToFollow), (2, RefuseToFollow), (3, TruncateTo), (9, TruncateTo)):
            own = self.own((1, 0), (2, 10), committed=16, unclean=unclean)
            self.assertIsInstance(after_divergence(own, OffsetAndEpoch(15, 2)), step, unclean)
        self.assertEqual(after_divergence(own, OffsetAndEpoch(15, 2)), TruncateTo(15, gives_up=True))
        own = self.own((4, 0), committed=3, unclean=5)
        self.assertEqual(after_divergence(own, OffsetAndEpoch(15, 3)), RestartAt(0, gives_up=True))

    def test_nonsense(self) -> None:
        """An answer that says nothing is waited out."""
        for epoch, offset in ((2, 20), (2, 99), (-1, -1), (7, -1), (7, 30)):
            self.assertIsInstance(
                after_divergence(self.own((1, 0), (2, 10)), OffsetAndEpoch(offset, epoch)), RetryLater
            )

    def test_out_of_range(self) -> None:
        """Records that the leader gave up are skipped; a log that is empty goes to where the leader's is."""
        own = self.own((1, 0), committed=20)
        self.assertEqual(after_out_of_range(own, 21), RestartAt(21))
        self.assertIsInstance(after_out_of_range(own, 20), RetryLater)
        self.assertIsInstance(after_out_of_range(own, -1), RetryLater)
        empty = FollowerLog(50, 50, 50, history())
        self.assertIsInstance(after_out_of_range(empty, 40), RefuseToFollow)
        self.assertEqual(after_out_of_range(FollowerLog(50, 50, 50, history(), 0), 40), RestartAt(40, gives_up=True))
        self.assertEqual(after_out_of_range(FollowerLog(50, 50, 50, history()), 60), RestartAt(60))


@define
class Model:
    """
    Three replicas of a partition; a record is known by who wrote it when.

    :ivar logs: for each replica (epoch, number) of each offset.
    :ivar known: each replica's high watermark.
    """

    epoch: int = -1
    leader: int = 0
    numbers: int = 0
    committed: list[tuple[int, int]] = field(factory=list)
    logs: list[list[tuple[int, int]]] = field(factory=lambda: [[], [], []])
    known: list[int] = field(factory=lambda: [0, 0, 0])
    caught_up: set[int] = field(factory=set)
    rounds: int = 0

    def elect(self, who: int) -> None:
        """A clean election: of somebody who has all that is committed."""
        if self.logs[who][: len(self.committed)] == self.committed:
            self.epoch += 1
            self.leader = who
            self.caught_up = {who}

    def append(self, count: int) -> None:
        for _ in range(count if self.epoch >= 0 else 0):
            self.numbers += 1
            self.logs[self.leader].append((self.epoch, self.numbers))

    def history(self, who: int) -> LeaderEpochCache:
        epochs = LeaderEpochCache()
        for offset, (epoch, _) in enumerate(self.logs[who]):
            epochs.assign(epoch, offset)
        return epochs

    def diverging(self, last_epoch: int, offset: int) -> OffsetAndEpoch | None:
        """What the leader answers."""
        log, epochs = self.logs[self.leader], self.history(self.leader)
        if epochs.latest < self.epoch:
            epochs.assign(self.epoch, len(log))
        ours = epochs.end_offset_for(last_epoch, len(log))
        return ours if ours.epoch < last_epoch or ours.offset < offset else None

    def fetch(self, who: int, count: int) -> None:
        """A follower asks until the logs agree, then takes some records."""
        if who == self.leader or self.epoch < 0:
            return
        mine, theirs = self.logs[who], self.logs[self.leader]
        most = len(list(self.history(who))) + 1
        for _ in range(most):
            if not mine or (diverging := self.diverging(mine[-1][0], len(mine))) is None:
                break
            step = after_divergence(FollowerLog(0, len(mine), self.known[who], self.history(who)), diverging)
            assert isinstance(step, (TruncateTo, RestartAt)) and not step.gives_up, step
            assert step.offset < len(mine), "the round brought nothing"
            del mine[step.offset :]
            self.rounds += 1
        else:
            raise AssertionError(f"they do not meet in {most} rounds")
        assert mine == theirs[: len(mine)], "they do not agree"
        mine += theirs[len(mine) : len(mine) + count]
        self.caught_up.add(who)
        self._commit()
        self.known[who] = max(self.known[who], min(len(self.committed), len(mine)))

    def _commit(self) -> None:
        """Two of three have it, in this epoch, and it reaches into this epoch."""
        if len(self.caught_up) >= 2:
            end = sorted(len(self.logs[who]) for who in self.caught_up)[-2]
            start = next((at for at, (e, _) in enumerate(self.logs[self.leader]) if e == self.epoch), 1 << 30)
            if end > max(len(self.committed), start):
                self.committed = self.logs[self.leader][:end]
                self.known[self.leader] = end


ACTIONS = st.lists(st.tuples(st.sampled_from(["elect", "append", "fetch"]), st.integers(0, 2), st.integers(1, 3)))


class ConvergenceTests(SynchronousTestCase):
    """Any run of clean elections, appends and fetches."""

    @given(ACTIONS)
    def test_logs_meet(self, actions: list[tuple[str, int, int]]) -> None:
        """
        Each fetch ends in finitely many rounds with a prefix of the leader's log, and no committed record is cut,
        nor is anything below a high watermark.
        """
        model = Model()
        for what, who, count in actions:
            if what == "elect":
                model.elect(who)
            elif what == "append":
                model.append(count)
            else:
                model.fetch(who, count)
            holders = sum(log[: len(model.committed)] == model.committed for log in model.logs)
            assert holders >= 2 or not model.committed
        for who in range(3):
            model.fetch(who, 1 << 20)
            assert model.epoch < 0 or model.logs[who] == model.logs[model.leader]

    def test_several_rounds(self) -> None:
        """Leaders that wrote without anybody taking it, in turns, leave logs that need more than one round."""
        model = Model()
        for who in (0, 1, 0, 1, 0, 1):
            model.elect(who)
            model.append(2)
        model.fetch(0, 9)
        self.assertEqual(model.logs[0], model.logs[1])
        self.assertGreater(model.rounds, 2)
