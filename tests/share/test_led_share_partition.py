"""A share partition on its leader: what the share coordinator is told, and when acquisitions end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.share.share_group_settings import ShareGroupSettings
from logbus.coordination.share_state.share_state import ACKNOWLEDGED, AVAILABLE, SharePartitionKey, StateBatch
from logbus.errors import ApiError, ErrorCode
from logbus.share.led_share_partition import LedSharePartition
from logbus.share.share_partition import (
    AcknowledgementBatch,
    AcknowledgeType,
    AcquiredRecords,
    SharePartition,
)
from logbus.timers import Timers

KEY = SharePartitionKey("g", UUID(int=1), 0)


@define
class Coordinator:
    """Answers writes when told to."""

    writes: list[tuple[int, int, tuple[StateBatch, ...]]] = field(factory=list)
    answers: list[Deferred[None]] = field(factory=list)

    def write(
        self, key: SharePartitionKey, state_epoch: int, epoch: int, start: int, done: int, batches: Sequence[StateBatch]
    ) -> Deferred[None]:
        assert (key, state_epoch, epoch) == (KEY, 3, 7)
        self.writes.append((start, done, tuple(batches)))
        self.answers.append(Deferred())
        return self.answers[-1]


@define(eq=False)
class Watcher:
    """A fetch that looks when it is told to, unless it is ``slow``, and takes nothing."""

    led: LedSharePartition
    slow: bool = False
    calls: int = 0

    def available(self) -> None:
        self.calls += 1
        if not self.slow:
            self.look()

    def look(self) -> None:
        self.led.watch(self)
        self.led.looked(self)


@define(eq=False)
class Leader:
    """A replica with 100 records."""

    high_watermark: int = 100
    watchers: dict[Any, None] = field(factory=dict)


class LedSharePartitionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.coordinator, self.leader = Clock(), Coordinator(), Leader()
        self.given_up: list[LedSharePartition] = []
        state = SharePartition(0, 3, lambda: ShareGroupSettings(partition_max_record_locks=20))
        coordinator: Any = self.coordinator
        replica: Any = self.leader
        self.led = LedSharePartition(
            KEY,
            replica,
            7,
            state,
            coordinator,
            Timers(self.clock),
            self.given_up.append,
        )
        self.led.members |= {"a", "b"}
        self.watcher = Watcher(self.led)
        self.led.watch(self.watcher)

    def acquire(self, member: str, last: int) -> list[AcquiredRecords]:
        first = self.led.state.next_fetch_offset
        return self.led.acquire(member, first, [last], 100, strict=False, skipped=())

    def say(self, member: str, first: int, last: int, kind: AcknowledgeType) -> Deferred[None]:
        return self.led.acknowledge(member, [AcknowledgementBatch(first, last, [kind])])

    def test_one_write_at_a_time(self) -> None:
        """What is acknowledged during a write goes with the next one; each is told when its own is kept."""
        self.acquire("a", 9)
        self.assertEqual(self.coordinator.writes, [])
        first = self.say("a", 5, 5, AcknowledgeType.ACCEPT)
        second = self.say("a", 6, 6, AcknowledgeType.ACCEPT)
        third = self.say("a", 0, 4, AcknowledgeType.ACCEPT)
        self.assertEqual(self.coordinator.writes, [(0, 1, (StateBatch(5, 5, ACKNOWLEDGED, 1),))])
        self.coordinator.answers[0].callback(None)
        self.successResultOf(first)
        self.assertNoResult(second)
        self.assertEqual(self.coordinator.writes[1:], [(7, 0, ())])
        self.coordinator.answers[1].callback(None)
        self.successResultOf(second)
        self.successResultOf(third)
        self.assertEqual(len(self.coordinator.writes), 2)

    def test_time(self) -> None:
        """Acquisitions end in time, those that were renewed later; who waits is told, and so is the coordinator."""
        self.acquire("a", 1)
        self.clock.advance(20)
        self.successResultOf(self.say("a", 1, 1, AcknowledgeType.RENEW))
        self.clock.advance(10)
        self.assertEqual(self.watcher.calls, 1)
        self.assertEqual(self.coordinator.writes, [(0, 0, (StateBatch(0, 0, AVAILABLE, 1),))])
        self.assertEqual(self.led.state.acquired_count, 1)
        self.clock.advance(20)
        self.assertEqual((self.led.state.acquired_count, self.watcher.calls), (0, 2))

    def test_nothing_to_keep(self) -> None:
        """What is renewed is not written; but what is said again is not confirmed before it is kept."""
        self.acquire("a", 9)
        accepted = self.say("a", 0, 4, AcknowledgeType.ACCEPT)
        again = self.say("a", 0, 4, AcknowledgeType.ACCEPT)
        renewed = self.say("a", 5, 9, AcknowledgeType.RENEW)
        self.assertNoResult(again)
        self.coordinator.answers[0].callback(None)
        for each in (accepted, again, renewed):
            self.successResultOf(each)
        self.assertEqual(self.coordinator.writes, [(5, 0, ())])
        answers = [self.say("a", 5, 5, AcknowledgeType.ACCEPT) for _ in range(2)]
        self.coordinator.answers[1].errback(ApiError(ErrorCode.NOT_COORDINATOR))
        for each in answers:
            self.failureResultOf(each, ApiError)

    def test_a_full_partition(self) -> None:
        """Who waits for room is told of it."""
        self.acquire("a", 30)
        self.assertTrue(self.led.state.is_full)
        self.say("a", 1, 1, AcknowledgeType.ACCEPT)
        self.assertEqual(self.watcher.calls, 0)
        self.say("a", 0, 0, AcknowledgeType.ACCEPT)
        self.assertEqual(self.watcher.calls, 1)

    def test_a_write_that_fails(self) -> None:
        """Nobody knows what is kept: all who wait are told, and the partition is given up."""
        self.acquire("a", 9)
        answers = [self.say("a", offset, offset, AcknowledgeType.ACCEPT) for offset in (0, 1)]
        self.coordinator.answers[0].errback(ApiError(ErrorCode.NOT_COORDINATOR))
        for answer in answers:
            self.assertEqual(self.failureResultOf(answer, ApiError).value.code, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.assertEqual((self.given_up, self.watcher.calls), ([self.led], 1))
        self.assertRaises(ApiError, self.say, "a", 2, 2, AcknowledgeType.ACCEPT)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_one_that_waits_is_gone(self) -> None:
        """The others are told all the same, and what has changed meanwhile is written."""
        self.acquire("a", 9)
        first, second, third = [self.say("a", offset, offset, AcknowledgeType.ACCEPT) for offset in (0, 1, 2)]
        first.cancel()
        second.cancel()
        self.failureResultOf(first)
        self.failureResultOf(second)
        self.coordinator.answers[0].callback(None)
        self.assertEqual(len(self.coordinator.writes), 2)
        self.coordinator.answers[1].callback(None)
        self.successResultOf(third)

    def test_an_administrator_sets_offsets(self) -> None:
        """The old state is fenced; members ask again, as after a change of leaders."""
        self.acquire("a", 0)
        answer = self.say("a", 0, 0, AcknowledgeType.ACCEPT)
        self.coordinator.answers[0].errback(ApiError(ErrorCode.FENCED_STATE_EPOCH))
        self.assertEqual(self.failureResultOf(answer, ApiError).value.code, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def test_members_go(self) -> None:
        """What one had acquired others get; without members it is forgotten, once all is kept."""
        self.acquire("a", 1)
        self.led.leave("a")
        self.assertEqual(self.watcher.calls, 1)
        self.assertEqual(self.acquire("b", 1), [AcquiredRecords(0, 1, 2)])
        self.led.leave("b")
        self.assertEqual(self.given_up, [])
        self.coordinator.answers[0].callback(None)
        self.assertEqual(self.coordinator.writes[1:], [(0, 0, (StateBatch(0, 1, AVAILABLE, 2),))])
        self.coordinator.answers[1].callback(None)
        self.assertEqual(self.given_up, [self.led])

    def test_one_is_told_at_a_time(self) -> None:
        """The one that has waited longest; when it has looked, and records are left, the next one, and each once."""
        first, second, third = self.watchers()
        self.led.moved(self.led.replica, 1)
        self.led.moved(self.led.replica, 1)
        self.assertEqual(self.calls(), [1, 0, 0])
        first.look()
        self.assertEqual(self.calls(), [1, 1, 0])
        self.acquire("b", 19)
        second.look()
        self.assertEqual(self.calls(), [1, 1, 0])
        self.led.acknowledge("b", [AcknowledgementBatch(0, 0, [AcknowledgeType.RELEASE])])
        self.assertEqual(self.calls(), [1, 1, 1])
        third.look()
        self.assertEqual(self.calls(), [2, 1, 1])
        first.look()
        second.look()
        self.assertEqual(self.calls(), [2, 2, 1])

    def test_one_that_was_told_is_gone(self) -> None:
        """The next one is told instead of it; when nobody is left, the replica is not watched."""
        first, second, third = self.watchers()
        self.led.moved(self.led.replica, 1)
        self.led.unwatch(first)
        self.led.unwatch(second)
        self.assertEqual(self.calls(), [1, 1, 1])
        self.led.unwatch(third)
        self.assertEqual(self.leader.watchers, {})

    def watchers(self) -> list[Watcher]:
        self.led.unwatch(self.watcher)
        self.slow = [Watcher(self.led, slow=True) for _ in range(3)]
        for each in self.slow:
            self.led.watch(each)
        return self.slow

    def calls(self) -> list[int]:
        return [each.calls for each in self.slow]

    def test_loading(self) -> None:
        """While what is next is loaded nobody is told of records behind it; then it is like records that have come."""
        loading: Deferred[None] = Deferred()
        self.watchers()
        self.led.load(loading)
        self.led.moved(self.led.replica, 1)
        self.assertEqual(self.calls(), [0, 0, 0])
        loading.errback(ValueError("it cannot be read"))
        self.assertEqual(self.calls(), [1, 0, 0])
