"""Reduces states that differ only in the numbering of replicas to one."""

from __future__ import annotations

from tests.model.states import NOBODY, Asked, Replica, State, Stored


def canonical(state: State) -> State:
    """The state with its replicas in an order that does not depend on their numbers, as far as that is cheap."""
    stored = state.stored

    def look(r: int) -> tuple[object, ...]:
        log, high_watermark, epoch, follows, leading, up, *rest = state.replicas[r]
        where = (stored.leader == r, stored.isr >> r & 1, stored.eligible >> r & 1, stored.unproven >> r & 1)
        role = (0,) if leading is None else (1, leading.start, leading.fresh)
        return log, high_watermark, epoch, follows == NOBODY, role, up, rest, where

    order = sorted(range(len(state.replicas)), key=look)
    if order == list(range(len(order))):
        return state
    return reordered(state, order)


def reordered(state: State, order: list[int]) -> State:
    """The state with replica ``order[n]`` as number n."""
    number = {old: new for new, old in enumerate(order)} | {NOBODY: NOBODY}

    def mask(old: int) -> int:
        return sum(1 << new for new, r in enumerate(order) if old >> r & 1)

    def replica(old: Replica) -> Replica:
        leading = old.leading
        if leading is None:
            return old._replace(follows=number[old.follows]) if old.follows != NOBODY else old
        ends = tuple(leading.ends[r] for r in order)
        leading = leading._replace(isr=mask(leading.isr), pending=mask(leading.pending), ends=ends)
        return old._replace(leading=leading)

    def node(old: Stored) -> Stored:
        return Stored(number[old.leader], old.epoch, mask(old.isr), mask(old.eligible), mask(old.unproven))

    return state._replace(
        replicas=tuple(replica(state.replicas[r]) for r in order),
        stored=node(state.stored),
        asked=tuple(sorted(Asked(mask(isr), tuple(lives[r] for r in order)) for isr, lives in state.asked)),
        wire=tuple(
            message._replace(replica=number[message.replica], leader=number[message.leader]) for message in state.wire
        ),
        lost=mask(state.lost),
        past=tuple(node(old) for old in state.past),
        zombie=None if state.zombie is None else node(state.zombie),
    )
