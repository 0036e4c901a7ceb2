"""
The state of the model: one partition, its replicas, the controller and messages in flight.

A record is the epoch it was appended in, with the life of the leader that did (``epoch + 10 * life``): with its offset
that names it. A log is a tuple of them. Sets of replicas are bit masks.
"""

from __future__ import annotations

from typing import NamedTuple

NOBODY = -1
LIFE = 10
NOT_YET = (-1, 0)


class Leading(NamedTuple):
    """
    What a leader knows.

    :ivar start: where its epoch starts.
    :ivar isr: as it last saw it in the store; ``fresh``: nobody has changed it since.
    :ivar pending: who it has asked to join.
    :ivar ends: of each replica, up to where it has fetched, and in which life; (−1, 0): not in this epoch.
    """

    start: int
    isr: int
    pending: int
    fresh: bool
    ends: tuple[tuple[int, int], ...]


class Replica(NamedTuple):
    """
    :ivar follows: whom; ``leading``: when it leads. Neither: it waits for an announcement.
    :ivar agreed: it was told of no divergence since it took its epoch.
    :ivar synced: how much of the log survives a power cut for certain.
    """

    log: tuple[int, ...]
    high_watermark: int
    epoch: int
    follows: int
    leading: Leading | None
    up: bool
    life: int
    agreed: bool
    synced: int


class Stored(NamedTuple):
    """
    The state of the partition in the metadata store.

    :ivar unproven: those that came back after an unclean stop while they were in the ISR, or eligible.
    """

    leader: int
    epoch: int
    isr: int
    eligible: int
    unproven: int = 0


class Asked(NamedTuple):
    """A leader's request to set the ISR; ``lives``: those in which the replicas have fetched."""

    isr: int
    lives: tuple[int, ...]


class Fetch(NamedTuple):
    """A request of ``replica`` to ``leader``; ``last``: the epoch of its last record; ``first``: of this epoch."""

    replica: int
    leader: int
    life: int
    epoch: int
    offset: int
    last: int
    first: bool


class Answer(NamedTuple):
    """
    :ivar offset: as in the request; ``last``: too.
    :ivar diverging: (epoch, end offset) up to which the logs may agree; None: ``records`` follow on ``offset``.
    """

    replica: int
    leader: int
    epoch: int
    offset: int
    last: int
    diverging: tuple[int, int] | None
    records: tuple[int, ...]
    high_watermark: int


class State(NamedTuple):
    """
    :ivar committed: what was readable or acknowledged, from the first record on.
    :ivar lies: disks that may lose what was synced yet.
    :ivar lost: replicas that lost power, or what was synced, and have not registered again.
    :ivar past: what the store held earlier; ``zombie``: what a deposed controller believes the store to hold.
    """

    replicas: tuple[Replica, ...]
    stored: Stored
    kills: int
    cuts: int
    asked: tuple[Asked, ...] = ()
    wire: tuple[Fetch | Answer, ...] = ()
    committed: tuple[int, ...] = ()
    lost: int = 0
    past: tuple[Stored, ...] = ()
    zombie: Stored | None = None
    lies: int = 0


def members(mask: int) -> str:
    """A set of replicas, as a reader wants it."""
    return "{" + ",".join(str(number) for number in range(mask.bit_length()) if mask >> number & 1) + "}"


def put(values: tuple, index: int, value: object) -> tuple:  # type: ignore[type-arg]
    """``values`` with another value at ``index``."""
    return (*values[:index], value, *values[index + 1 :])


def count(members: int) -> int:
    """How many a set has."""
    return members.bit_count()


def with_replica(state: State, r: int, replica: Replica) -> State:
    """The state with another replica ``r``."""
    return state._replace(replicas=put(state.replicas, r, replica))


def without_asked(state: State, number: int) -> State:
    """The state without that request to the controller."""
    return state._replace(asked=state.asked[:number] + state.asked[number + 1 :])
