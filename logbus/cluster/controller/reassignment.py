"""
Reassignments of partitions to other replicas (KIP-455): pure.

::

    at rest ──wanted: others──▶ moving: replicas = wanted ∪ those before; the new ones fetch
    moving ──wanted: others again──▶ moving, to the new target; replicas in neither go at once
    moving ──cancelled──▶ at rest, where it was
    moving ──the new ones are in sync──▶ at rest, where it was to be; the old ones delete their logs

A reassignment that would leave no replica in sync is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import evolve, frozen

from logbus.cluster.controller.controller_context import NO_LEADER, PartitionRecord
from logbus.cluster.controller.leader_election import ElectionResult, Situation, restricted_to
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition


@frozen
class Move:
    """
    The next state of a reassignment.

    :ivar election: the new leader and ISR, if they change.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    election: ElectionResult | None = None


def move_to(
    name: TopicPartition,
    record: PartitionRecord,
    now: Situation,
    wanted: Sequence[int],
    alive: Collection[int],
    *,
    factor_may_change: bool = True,
) -> Move:
    """
    Begin a reassignment, or change the target of one under way.

    :param alive: the live brokers: others cannot be added.
    :raise ApiError: INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR.
    """
    target, origin = tuple(wanted), record.origin
    _check(name, target, origin, alive, factor_may_change)
    replicas = tuple(dict.fromkeys((*target, *origin)))
    return Move(
        replicas,
        tuple(one for one in replicas if one not in origin),
        tuple(one for one in replicas if one not in target),
        restricted_to(now, replicas),
    )


def cancelled_move(name: TopicPartition, record: PartitionRecord, now: Situation) -> Move:
    """
    Cancel a move.

    :raise ApiError: NO_REASSIGNMENT_IN_PROGRESS; INVALID_REPLICA_ASSIGNMENT: no former replica is in sync.
    """
    if not record.reassigning:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{name} is not being reassigned")
    return Move(record.origin, election=restricted_to(now, record.origin))


def finished(record: PartitionRecord, now: Situation) -> Move | None:
    """The end of a move, if it has come: all that were added are in sync, and enough of those that stay."""
    target = record.target
    staying = [one for one in now.current.isr if one in target]
    if not record.reassigning or not set(record.adding) <= set(staying):
        return None
    if len(staying) < now.rules.enough(len(target)) or not staying:
        return None
    election = restricted_to(now, target)
    if election is not None and election.result.leader == NO_LEADER:
        return None
    return Move(target, election=election)


def moved(record: PartitionRecord, move: Move) -> PartitionRecord:
    """The record after a move."""
    state = record.state if move.election is None else move.election.result
    return evolve(record, replicas=move.replicas, adding=move.adding, removing=move.removing, state=state)


def _check(
    name: TopicPartition,
    target: tuple[int, ...],
    origin: tuple[int, ...],
    alive: Collection[int],
    factor_may_change: bool,
) -> None:
    def refused(why: str) -> ApiError:
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{name}: {why}")

    if not target:
        raise refused("the list of replicas is empty")
    if len(set(target)) != len(target):
        raise refused(f"the replicas name a broker twice: {list(target)}")
    unknown = sorted(one for one in target if one not in origin and one not in alive)
    if unknown:
        raise refused(f"brokers {unknown} are not alive; those that are: {sorted(alive)}")
    if not factor_may_change and len(target) != len(origin):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{name} has {len(origin)} replicas; the request does not allow to make it {len(target)}",
        )
