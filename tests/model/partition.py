"""
The steps of one partition and its controller.

A fetch is carried out at once, or its request or its answer is left on the wire, to arrive later or never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import frozen

from tests.model.explorer import Violation
from tests.model.replication import Replication
from tests.model.states import (
    NOBODY,
    NOT_YET,
    Fetch,
    Leading,
    Replica,
    State,
    Stored,
    count,
    members,
    with_replica,
    without_asked,
)

Step = tuple[str, "State | Violation"]


@frozen
class Partition(Replication):
    """A partition under ``rules``, within ``scope``."""

    def start(self) -> State:
        """Replica 0 leads in epoch 1, and everybody knows."""
        size = self.scope.replicas
        everybody = (1 << size) - 1
        leading = Leading(0, everybody, 0, True, (NOT_YET,) * size)
        follower = Replica((), 0, 1, 0, None, True, 0, False, 0)
        leader = follower._replace(follows=NOBODY, leading=leading)
        replicas = (leader, *[follower] * (size - 1))
        return State(replicas, Stored(0, 1, everybody, 0), self.scope.kills, self.scope.cuts, lies=self.scope.lies)

    def steps(self, state: State) -> Iterator[Step]:
        """All that can happen next."""

        def step(name: str, action: Callable[..., State], *arguments: object) -> Step:
            try:
                return name, action(state, *arguments)
            except Violation as violation:
                return name, violation

        stored, scope, rules = state.stored, self.scope, self.rules
        for r, replica in enumerate(state.replicas):
            if not replica.up:
                yield step(f"{r} starts again", self.restart, r)
                continue
            if replica.leading is not None:
                if len(replica.log) < scope.records:
                    yield step(f"{r} appends in epoch {replica.epoch}", self.append, r)
                yield from self._isr_steps(state, r, replica.leading, step)
            elif replica.follows != NOBODY:
                yield step(f"{r} fetches from {replica.follows}", self.fetch, r, True)
                if scope.lossy:
                    yield step(f"{r} fetches from {replica.follows}, and the answer is lost", self.fetch, r, False)
                if len(state.wire) < scope.delayed:
                    yield step(f"{r} sends a fetch to {replica.follows}", self.send, r)
            if replica.epoch < stored.epoch and stored.leader != NOBODY:
                yield step(f"{r} hears that {stored.leader} leads in epoch {stored.epoch}", self.learn, r, stored)
            for past in state.past if not rules.old_announcements_refused else ():
                if past.epoch < replica.epoch:
                    yield step(f"{r} hears (late) that {past.leader} leads in epoch {past.epoch}", self.learn, r, past)
            if replica.synced < len(replica.log) and scope.flush:
                yield step(f"{r} syncs its log", self.sync, r)
            if state.kills:
                yield step(f"{r} is killed", self.crash, r, len(replica.log), True)
            if state.cuts:
                for kept in range(replica.synced, len(replica.log) + 1):
                    yield step(f"{r} loses power, and keeps {kept} records", self.crash, r, kept, False)
            if state.lies:
                for kept in range(len(replica.log)):
                    yield step(f"{r} is killed, and its disk keeps {kept} records", self.lie, r, kept)
            if stored.epoch < scope.epochs and r != stored.leader and self._may_lead(state, r):
                for isr in self._isrs_after_election(state, stored, r):
                    yield step(f"{r} is elected, with ISR {members(isr)}", self.elect, stored, r, isr)
            zombie = state.zombie
            if zombie is not None and zombie.isr >> r & 1 and not rules.controller_fenced:
                yield step(f"{r} is elected by a deposed controller", self.elect, zombie, r, zombie.isr)
        if not rules.controller_fenced and state.zombie is None:
            yield "another controller is elected", state._replace(zombie=stored)
        for number, message in enumerate(state.wire):
            what = "the fetch" if isinstance(message, Fetch) else "the answer"
            yield step(f"{what} of {message.replica} in epoch {message.epoch} arrives", self.arrive, number)
        for number, asked in enumerate(state.asked):
            yield step(f"the controller takes ISR {members(asked.isr)}", self.decide, number)
            yield f"the request for ISR {members(asked.isr)} is lost", without_asked(state, number)

    def _isr_steps(self, state: State, r: int, leading: Leading, step: Callable[..., Step]) -> Iterator[Step]:
        rules, stored, leader = self.rules, state.stored, state.replicas[r]
        current = leader.epoch == stored.epoch and stored.leader == r
        if current and not leading.fresh:
            yield step(f"{r} reads ISR {members(stored.isr)}", self.read, r)
        if leading.pending and leading.fresh and not rules.unknown_kept:
            yield step(f"{r} reads ISR {members(stored.isr)}, and takes its request for lost", self.read, r)
        if len(state.asked) >= self.scope.asked or (rules.compare_and_set and not (current and leading.fresh)):
            return
        for f in range(self.scope.replicas):
            isr = leading.isr ^ (1 << f)
            if f == r or (not rules.slow_leave and leading.isr >> f & 1):
                continue
            if not leading.isr >> f & 1 and not self._may_join(leader, leading, f):
                continue
            yield step(f"{r} asks for ISR {members(isr)}", self.ask, r, isr)

    # Announcements, processes, the controller.

    def learn(self, state: State, r: int, stored: Stored) -> State:
        """A replica takes the role that the controller gives it."""
        replica = state.replicas[r]._replace(epoch=stored.epoch, agreed=False)
        if stored.leader == r:
            nothing = (NOT_YET,) * self.scope.replicas
            leading = Leading(len(replica.log), stored.isr, 0, stored == state.stored, nothing)
            return self._advance(with_replica(state, r, replica._replace(follows=NOBODY, leading=leading)), r)
        after = with_replica(state, r, replica._replace(follows=stored.leader, leading=None))
        return after if self.rules.cut_by_divergence else self._cut(after, r, replica.high_watermark)

    def crash(self, state: State, r: int, kept: int, killed: bool) -> State:
        """A process ends; with the power goes what was not synced."""
        replica = state.replicas[r]
        log = replica.log[:kept]
        replica = replica._replace(
            log=log,
            synced=min(replica.synced, kept) if self.scope.flush else 0,
            high_watermark=0,  # where it was is written down now and then: this is the worst there can be
            epoch=0,
            follows=NOBODY,
            leading=None,
            up=False,
            agreed=False,
        )
        after = with_replica(state, r, replica)
        if killed:
            return after._replace(kills=state.kills - 1)
        return after._replace(cuts=state.cuts - 1, lost=state.lost | 1 << r)

    def lie(self, state: State, r: int, kept: int) -> State:
        """A process ends, and its disk loses records that it had synced."""
        after = self.crash(state, r, kept, killed=True)
        return after._replace(kills=state.kills, lies=state.lies - 1, lost=state.lost | 1 << r)

    def restart(self, state: State, r: int) -> State:
        """A broker registers anew."""
        replica = state.replicas[r]
        state = with_replica(state, r, replica._replace(up=True, life=replica.life + 1))
        stored = state.stored
        if stored.leader == r and self.rules.restart_renews_epoch:
            stored = stored._replace(leader=NOBODY)
            state = state._replace(stored=stored)
        state = state._replace(lost=state.lost & ~(1 << r))
        if self.rules.unclean_not_electable:
            holders = stored.isr | stored.eligible | stored.unproven
            stored = stored._replace(unproven=stored.unproven | holders & 1 << r)
            living = sum(1 << f for f, other in enumerate(state.replicas) if other.up and f != r)
            isr = stored.isr & ~stored.unproven
            if isr & living:
                stored = stored._replace(isr=isr, eligible=self._eligible(stored, isr))
        if stored != state.stored:
            return self._write(state, stored)
        return self._safe(state)

    def _isrs_after_election(self, state: State, stored: Stored, r: int) -> set[int]:
        """What the controller may take for alive: all, those that are, those without the old leader."""
        living = sum(1 << f for f, replica in enumerate(state.replicas) if replica.up)
        sure = stored.isr & ~stored.unproven
        if not sure >> r & 1:
            return {1 << r} if not sure & living else set()
        leader = 1 << stored.leader if stored.leader != NOBODY else 0
        return {sure, sure & living, sure & living & ~leader}

    def elect(self, state: State, stored: Stored, r: int, isr: int) -> State:
        """The controller makes ``r`` the leader of the next epoch."""
        log = state.replicas[r].log
        if log[: len(state.committed)] != state.committed:
            raise Violation(f"replica {r} leads with {log}: {state.committed} was committed")
        after = Stored(r, stored.epoch + 1, isr, self._eligible(stored, isr), stored.unproven)
        if stored.unproven >> r & 1:
            # Those whose logs end where its does have as much.
            equal = sum(
                1 << f
                for f in range(self.scope.replicas)
                if stored.unproven >> f & 1 and f != r and self._length(state, f) == self._length(state, r)
            )
            short = count(isr) < self.scope.minimum and self.rules.eligible_kept
            after = after._replace(eligible=equal if short else 0, unproven=0)
        state = self._write(state, after)
        return self.learn(state, r, after) if self.scope.prompt and state.replicas[r].up else state

    def decide(self, state: State, number: int) -> State:
        """The controller takes a request for another ISR, or refuses."""
        asked = state.asked[number]
        stored = state.stored
        for f, replica in enumerate(state.replicas):
            joins = asked.isr & ~stored.isr & (1 << f)
            if joins and (not replica.up or (self.rules.lives_compared and asked.lives[f] != replica.life)):
                return without_asked(state, number)
        state = without_asked(state, number)
        return self._write(
            state, stored._replace(isr=asked.isr, eligible=self._eligible(stored, asked.isr), unproven=0)
        )

    def _eligible(self, stored: Stored, isr: int) -> int:
        if not self.rules.eligible_kept:
            return 0
        if count(isr) >= self.scope.minimum and self.rules.eligible_cleared:
            return 0
        return (stored.eligible | stored.isr) & ~isr & ~stored.unproven

    def _write(self, state: State, stored: Stored) -> State:
        """Write the state: whatever was asked for in an earlier version is refused from now on, and so left out."""
        replicas = tuple(
            replica._replace(leading=replica.leading._replace(fresh=False)) if replica.leading is not None else replica
            for replica in state.replicas
        )
        past = () if self.rules.old_announcements_refused else (*state.past, state.stored)
        asked = () if self.rules.compare_and_set else state.asked
        return self._safe(state._replace(replicas=replicas, stored=stored, asked=asked, past=past))
