"""The steps of leader and followers with the logs of one partition, and the invariants."""

from __future__ import annotations

from attrs import frozen

from tests.model.explorer import Violation
from tests.model.rules import Rules, Scope
from tests.model.states import (
    LIFE,
    NOBODY,
    Answer,
    Asked,
    Fetch,
    Leading,
    Replica,
    State,
    count,
    put,
    with_replica,
)


@frozen
class Replication:
    """The replicas of a partition under ``rules``, within ``scope``."""

    rules: Rules
    scope: Scope

    # The leader.

    def append(self, state: State, r: int) -> State:
        """A producer's record is written."""
        leader = state.replicas[r]
        log = (*leader.log, leader.epoch + LIFE * leader.life)
        return self._advance(with_replica(state, r, leader._replace(log=log)), r)

    def sync(self, state: State, r: int) -> State:
        """All of a log is on the disk."""
        replica = state.replicas[r]
        after = with_replica(state, r, replica._replace(synced=len(replica.log)))
        return self._advance(after, r) if replica.leading is not None else after

    def ask(self, state: State, r: int, isr: int) -> State:
        """The leader asks the controller for another ISR; who shall join counts from now on."""
        leader = state.replicas[r]
        assert leader.leading is not None
        leading = leader.leading
        asked = Asked(isr, tuple(life for _, life in leading.ends))
        pending = leading.pending | (isr & ~leading.isr)
        if not self.rules.maximal_isr:
            pending = 0
        after = with_replica(state, r, leader._replace(leading=leading._replace(pending=pending)))
        return after._replace(asked=(*state.asked, asked))

    def read(self, state: State, r: int) -> State:
        """The leader reads what the store holds: a later version settles all that was asked before."""
        leader = state.replicas[r]
        assert leader.leading is not None
        leading = leader.leading._replace(isr=state.stored.isr, pending=0, fresh=True)
        return self._advance(with_replica(state, r, leader._replace(leading=leading)), r)

    def serve(self, state: State, fetch: Fetch) -> tuple[State, Answer | None]:
        """The leader takes a fetch: what follows for the high watermark, and the answer (None: refused)."""
        rules = self.rules
        leader = state.replicas[fetch.leader]
        leading = leader.leading
        if not leader.up or leading is None:
            return state, None
        if fetch.epoch != leader.epoch and rules.current_epoch_checked:
            return state, None
        if fetch.life < leading.ends[fetch.replica][1] and rules.lives_compared:
            return state, None
        answer = Answer(fetch.replica, fetch.leader, fetch.epoch, fetch.offset, fetch.last, None, (), 0)
        if rules.divergence_found and (fetch.first or rules.divergence_kept):
            diverging = self._divergence(leader.log, fetch)
            if diverging is not None:
                return state, answer._replace(diverging=diverging)
        if fetch.offset > len(leader.log):
            return state, answer._replace(diverging=(self._stamp(leader.log[-1]) if leader.log else 0, len(leader.log)))
        leading = leading._replace(ends=put(leading.ends, fetch.replica, (fetch.offset, fetch.life)))
        state = self._advance(with_replica(state, fetch.leader, leader._replace(leading=leading)), fetch.leader)
        leader = state.replicas[fetch.leader]
        return state, answer._replace(records=leader.log[fetch.offset :], high_watermark=leader.high_watermark)

    def _divergence(self, log: tuple[int, ...], fetch: Fetch) -> tuple[int, int] | None:
        if fetch.offset == 0:
            return None
        end = sum(self._stamp(record) <= fetch.last for record in log)
        epoch = self._stamp(log[end - 1]) if end else 0
        return (epoch, end) if epoch != fetch.last or end < fetch.offset else None

    def _advance(self, state: State, r: int) -> State:
        """Move the leader's high watermark as far as it may go."""
        leader = state.replicas[r]
        leading = leader.leading
        assert leading is not None
        if count(leading.isr) < self.scope.minimum and self.rules.strict_minimum:
            return state
        counted = leading.isr | leading.pending
        ends = [end for f, (end, _) in enumerate(leading.ends) if f != r and counted >> f & 1]
        own = leader.synced if self.scope.flush and self.rules.leader_synced else len(leader.log)
        high_watermark = min([own, *ends])
        if high_watermark <= leader.high_watermark:
            return state
        if high_watermark < leading.start and self.rules.epoch_start_covered:
            return state
        return self._commit(with_replica(state, r, leader._replace(high_watermark=high_watermark)), r)

    def _commit(self, state: State, r: int) -> State:
        """What is below the high watermark is committed: it can be read, and acknowledged."""
        leader = state.replicas[r]
        end = leader.high_watermark
        committed = leader.log[:end]
        shared = min(end, len(state.committed))
        if committed[:shared] != state.committed[:shared]:
            raise Violation(f"replica {r} commits {committed}, but {state.committed} was committed")
        return self._safe(state._replace(committed=max(committed, state.committed, key=len)))

    def _safe(self, state: State) -> State:
        """Whoever may be elected has all that is committed (but for one that lost it, and is not back yet)."""
        committed = state.committed
        for r, replica in enumerate(state.replicas):
            if replica.log[: len(committed)] != committed and not state.lost >> r & 1 and self._may_lead(state, r):
                raise Violation(f"replica {r} could be elected with {replica.log}: {committed} is committed")
        return state

    def _may_lead(self, state: State, r: int) -> bool:
        """Whether the controller may elect a replica: it is sure to have everything, or is the best of the others."""
        stored = state.stored
        holders = stored.isr | stored.eligible | stored.unproven
        sure = (stored.isr | stored.eligible) & ~stored.unproven
        if sure or not stored.unproven >> r & 1:
            return bool(sure >> r & 1)
        if any(holders >> f & 1 and not replica.up for f, replica in enumerate(state.replicas)):
            return False
        return not self.rules.longest_elected or self._length(state, r) == max(
            self._length(state, f) for f in range(self.scope.replicas) if holders >> f & 1
        )

    def _length(self, state: State, r: int) -> tuple[int, int]:
        """How much a log has: the epoch of its last record, and its end."""
        log = state.replicas[r].log
        return (self._stamp(log[-1]) if log else 0, len(log))

    # Followers.

    def request(self, state: State, r: int) -> Fetch:
        """What a follower asks for next."""
        follower = state.replicas[r]
        last = self._stamp(follower.log[-1]) if follower.log else 0
        first = not follower.agreed
        return Fetch(r, follower.follows, follower.life, follower.epoch, len(follower.log), last, first)

    def fetch(self, state: State, r: int, answered: bool) -> State:
        """A fetch and its answer, at once."""
        after, answer = self.serve(self._before_fetch(state, r), self.request(state, r))
        return self.take(after, answer) if answer is not None and answered else after

    def send(self, state: State, r: int) -> State:
        """A fetch that takes its time."""
        return self._before_fetch(state, r)._replace(wire=(*state.wire, self.request(state, r)))

    def _before_fetch(self, state: State, r: int) -> State:
        """With ``flush.before.ack`` what a follower has is synced before it asks for more."""
        follower = state.replicas[r]
        if not self.scope.flush or not self.rules.synced_fetched or follower.synced == len(follower.log):
            return state
        return with_replica(state, r, follower._replace(synced=len(follower.log)))

    def arrive(self, state: State, number: int) -> State:
        """A late message: the answer to a request may be late as well."""
        message = state.wire[number]
        state = state._replace(wire=state.wire[:number] + state.wire[number + 1 :])
        if isinstance(message, Answer):
            return self.take(state, message)
        after, answer = self.serve(state, message)
        return after if answer is None else after._replace(wire=(*after.wire, answer))

    def take(self, state: State, answer: Answer) -> State:
        """A follower takes an answer: it appends, or cuts its log."""
        follower = state.replicas[answer.replica]
        if not follower.up or follower.leading is not None or follower.follows == NOBODY:
            return state
        if self.rules.answers_checked and answer[2:5] != self.request(state, answer.replica)[3:6]:
            return state
        if answer.diverging is not None:
            return self._cut(state, answer.replica, self._cutting_point(follower.log, *answer.diverging))
        if answer.offset > len(follower.log):
            return state
        log = follower.log[: answer.offset] + answer.records
        high_watermark = max(follower.high_watermark, min(answer.high_watermark, len(log)))
        if log[:high_watermark] != state.committed[:high_watermark]:
            raise Violation(
                f"replica {answer.replica} lets {log[:high_watermark]} be read: {state.committed} is committed"
            )
        for other in state.replicas:
            if other.log != log and diverge_under_one_name(log, other.log):
                raise Violation(f"logs {log} and {other.log} differ below a record that both have")
        follower = follower._replace(log=log, high_watermark=high_watermark, agreed=not self.rules.divergence_kept)
        return with_replica(state, answer.replica, follower)

    def _cutting_point(self, log: tuple[int, ...], epoch: int, end: int) -> int:
        if self.rules.divergence_by_epoch:
            end = min(end, sum(self._stamp(record) <= epoch for record in log))
        return min(end, len(log))

    def _cut(self, state: State, r: int, end: int) -> State:
        replica = state.replicas[r]
        if end < replica.high_watermark and self.rules.cut_by_divergence:
            raise Violation(f"replica {r} cuts {replica.log} at {end}, below its high watermark")
        replica = replica._replace(
            log=replica.log[:end],
            synced=min(replica.synced, end),
            high_watermark=min(replica.high_watermark, end),
            agreed=not self.rules.divergence_by_epoch,
        )
        return self._safe(with_replica(state, r, replica))

    def _may_join(self, leader: Replica, leading: Leading, f: int) -> bool:
        end, _ = leading.ends[f]
        return end >= 0 and (
            (end >= leader.high_watermark or not self.rules.join_at_high_watermark)
            and (end >= leading.start or not self.rules.join_at_epoch_start)
        )

    def _stamp(self, record: int) -> int:
        return record % LIFE if self.rules.epoch_stamped else 1


def diverge_under_one_name(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two logs have the same record at an offset, and differ before it."""
    same = [a == b for a, b in zip(one, other, strict=False)]
    return True in same and False in same[: len(same) - same[::-1].index(True)]
