"""A follower's fetch from where its last one was, which the leader takes note of with less work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from attrs import evolve
from hypothesis import event, given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.cluster.replication.partition import Partition
from logbus.cluster.replication.replica import Replica
from logbus.errors import ApiError, ErrorCode
from tests.cluster.replication.test_isr_manager import IsrCase

BROKER = st.sampled_from((1, 1, 2, 2, 2))
STEP = st.one_of(
    st.tuples(st.just("fetch"), BROKER, st.sampled_from(("again", "again", "on", "end", "end", "back")), st.just(1)),
    st.tuples(st.just("fetch"), BROKER, st.sampled_from(("again", "end")), st.sampled_from((1, 1, 1, 2))),
    st.tuples(st.just("fetch"), BROKER, st.just("again"), st.just(1)),
    st.tuples(st.just("fetch"), BROKER, st.sampled_from(("again", "end")), st.just(1)),
    st.tuples(st.just("append")),
    st.tuples(st.just("append")),
    st.tuples(st.just("pass"), st.sampled_from((0.0, 1.0, 6.0, 11.0))),
    st.tuples(st.just("answer"), st.booleans()),
    st.tuples(st.just("lead"), st.sampled_from(((0, 1, 2), (0, 1), (0,)))),
    st.tuples(st.just("configure"), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("delete records")),
    st.tuples(st.just("gone"), BROKER),
    st.tuples(st.just("back"), BROKER),
)


class Noting:
    """A watcher that notes what it is told."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def moved(self, replica: Replica, size: int) -> None:
        self.sizes.append(size)


class RepeatedFetchTests(IsrCase):
    """Fetches from the offset of the fetch before."""

    def note(self, waiting: Deferred[None] | None, outcomes: list[object]) -> None:
        """Have the outcome of a wait noted."""
        number = len(outcomes)
        outcomes.append("none" if waiting is None else "waits")

        def ended(result: object) -> None:
            outcomes[number] = result.getErrorMessage() if isinstance(result, Failure) else "done"

        if waiting is not None:
            waiting.addBoth(ended)

    def trace(self, steps: Sequence[Any]) -> list[object]:
        """What can be seen of a leader after each of these."""
        self.setUp()
        outcomes: list[object] = []
        seen: list[object] = []
        watcher, log_watcher = Noting(), Noting()
        epoch, alive = 0, {0, 1, 2}
        replica = self.lead(0, 1, 2)
        replica.watchers[watcher] = replica.log_watchers[log_watcher] = None
        for kind, *rest in steps:
            partition, log = replica.partition, replica.log
            try:
                if kind == "fetch":
                    broker, where, broker_epoch = rest
                    follower = partition.follower(broker, partition.leader_epoch, broker_epoch)
                    last, end = max(0, follower.log_end_offset), log.log_end_offset
                    offset = {"again": last, "on": min(last + 1, end), "end": end, "back": max(0, last - 1)}[where]
                    replica.fetched(follower, offset, min(offset, log.log_start_offset))
                elif kind == "append":
                    self.note(self.append(replica), outcomes)
                elif kind == "pass":
                    self.clock.advance(rest[0])
                    replica.check_lag()
                elif kind == "answer" and self.link.asked:
                    self.answer(*((ErrorCode.INVALID_UPDATE_VERSION,) if rest[0] else ()))
                elif kind == "lead":
                    epoch += 1
                    replica = self.lead(*rest[0], epoch=epoch)
                elif kind == "configure":
                    replica.configure(evolve(self.config, min_insync_replicas=rest[0], flush_before_ack=rest[1]))
                elif kind == "delete records":
                    log.advance_start(partition.high_watermark)
                    self.note(replica.deleted(), outcomes)
                elif kind in ("gone", "back"):
                    alive = alive - {rest[0]} if kind == "gone" else alive | {rest[0]}
                    self.alive(*sorted(alive))
                    replica.brokers_lost([rest[0]] if kind == "gone" else [])
            except (ApiError, AssertionError) as e:
                seen.append(str(e))
            seen.append(
                (
                    *(partition.high_watermark, partition.is_established, partition.leader_and_isr),
                    *(sorted(partition.maximal_isr), partition.isr_change.pending, replica.low_watermark),
                    *(attrs.astuple(follower) for follower in partition.followers.values()),
                    *(tuple(outcomes), len(self.link.asked), len(watcher.sizes), len(log_watcher.sizes)),
                )
            )
        return seen

    @settings(max_examples=300, deadline=None)
    @given(st.lists(STEP, min_size=6, max_size=40))
    def test_as_any_other(self, steps: Sequence[Any]) -> None:
        """Whatever happens before and after, it has the effects that it has by the longer way."""
        settled, short = Partition.is_settled, [0]

        def counting(partition: Partition, follower: Any) -> bool:
            found = settled(partition, follower)
            short[0] += found
            return found

        self.patch(Partition, "is_settled", counting)
        quick = self.trace(steps)
        self.patch(Partition, "is_settled", lambda partition, follower: False)
        self.assertEqual(quick, self.trace(steps))
        self.patch(Partition, "is_settled", settled)
        event(f"by the short way: {min(short[0], 3)}")
