"""
The lag of groups over the last hour, a sample a minute: of the groups that this broker coordinates, and in each of the
partitions with the largest lag.

It is bounded: of many groups those farthest behind are kept. A sample is taken in slices.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import define, field, frozen
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import Cooperator, LoopingCall
from twisted.logger import Logger

from logbus.coordination.committed_offset import CommittedOffset
from logbus.coordination.group_lags import PAUSE_PARTITIONS, GroupLags
from logbus.model import TopicPartition

INTERVAL_SECONDS = 60
SAMPLES = 60
MOST_GROUPS = 100
MOST_PARTITIONS = 8


@frozen
class LagSample:
    """
    The lag of a group at one time.

    :ivar at_ms: when, in ms since 1970.
    :ivar sum: records still to read, over all partitions whose end is known.
    :ivar partitions: those with the largest lag, the largest first.
    """

    at_ms: int
    sum: int
    partitions: Sequence[tuple[TopicPartition, int]]


@define(eq=False)
class LagHistory:
    """
    The last hour.

    :ivar wall_clock: seconds since 1970.
    """

    lags: GroupLags
    clock: IReactorTime
    wall_clock: Callable[[], float]
    _samples: dict[str, deque[LagSample]] = field(factory=dict, init=False)
    _timer: LoopingCall | None = field(default=None, init=False)
    _cooperator: Cooperator = field(init=False)
    _log = Logger()

    @_cooperator.default
    def _make_cooperator(self) -> Cooperator:
        return Cooperator(scheduler=lambda turn: self.clock.callLater(0, turn))

    def start(self) -> None:
        """Take a sample now, and then at each interval."""
        if self._timer is None:
            self._timer = LoopingCall(self._begin)
            self._timer.clock = self.clock
            self._timer.start(INTERVAL_SECONDS)

    def stop(self) -> None:
        """Take no more samples."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
            self._cooperator.stop()
            self._cooperator = self._make_cooperator()

    def of(self, group_id: str) -> Sequence[LagSample]:
        """Return the samples of a group, the oldest first; none if it is not among those farthest behind."""
        return tuple(self._samples.get(group_id, ()))

    def _begin(self) -> None:
        task = self._cooperator.cooperate(self._take())
        task.whenDone().addErrback(
            lambda failure: (
                self._log.failure("a sample of the lag of groups failed", failure) if self._timer is not None else None
            )
        )

    def _take(self) -> Iterator[None]:
        at_ms = int(self.wall_clock() * 1000)
        # Of equal sums, the group with the lower id: the heap compares no samples.
        farthest: list[tuple[int, str, LagSample]] = []
        for group, offsets in self.lags.groups():
            for sample in self._measure(at_ms, offsets):
                if sample is None:
                    yield None
                else:
                    entry = (sample.sum, group.group_id, sample)
                    if len(farthest) < MOST_GROUPS:
                        heapq.heappush(farthest, entry)
                    elif entry[:2] > farthest[0][:2]:
                        heapq.heapreplace(farthest, entry)
            yield None
        kept: dict[str, deque[LagSample]] = {}
        for _, group_id, sample in farthest:
            kept[group_id] = self._samples.get(group_id) or deque(maxlen=SAMPLES)
            kept[group_id].append(sample)
        self._samples = kept

    def _measure(self, at_ms: int, offsets: Mapping[TopicPartition, CommittedOffset]) -> Iterator[LagSample | None]:
        """Yield the lag of a group, after a None for each pause; nothing if none is known."""
        total, largest, known = 0, list[tuple[int, TopicPartition]](), False
        for looked_at, (partition, committed) in enumerate(list(offsets.items()), 1):
            if looked_at % PAUSE_PARTITIONS == 0:
                yield None
            lag = self.lags.lag(partition, committed)
            if lag is not None:
                known = True
                total += lag
                if len(largest) < MOST_PARTITIONS:
                    heapq.heappush(largest, (lag, partition))
                elif lag > largest[0][0]:
                    heapq.heapreplace(largest, (lag, partition))
        if known:
            yield LagSample(at_ms, total, tuple((each, lag) for lag, each in sorted(largest, key=_farthest_first)))


def _farthest_first(each: tuple[int, TopicPartition]) -> tuple[int, TopicPartition]:
    return -each[0], each[1]
