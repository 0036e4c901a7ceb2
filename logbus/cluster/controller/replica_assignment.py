"""
Assigns the replicas of new partitions to brokers, as Kafka does (AdminUtils.assignReplicasToBrokers, KIP-36): pure.

Leaders go round the brokers from a random start. Followers are shifted a little further with every round, so that the
load of a failed broker spreads over all others. With racks, the brokers are taken from one rack after the other, and no
rack gets a second replica before each has one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from random import Random

from logbus.errors import ApiError, ErrorCode

Replicas = tuple[int, ...]


def assign_replicas(
    brokers: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    random: Random,
    existing: Sequence[Replicas] = (),
) -> list[Replicas]:
    """
    Replicas for new partitions, the preferred leader first.

    :param brokers: racks by broker id (None: unknown); racks count only when all are known.
    :param partitions: how many to place.
    :param existing: the topic's present partitions: the assignment continues after them.
    :raise ApiError: INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR.
    """
    if partitions < 1:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"the number of partitions is {partitions}; at least 1 is needed")
    if replication_factor < 1:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the replication factor is {replication_factor}; at least 1 is needed",
        )
    if replication_factor > len(brokers):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the replication factor {replication_factor} is larger than the {len(brokers)} brokers alive",
        )
    order = _by_turns(brokers)
    if existing and existing[0][0] in brokers:
        start = shift = order.index(existing[0][0])
    else:
        start, shift = random.randrange(len(order)), random.randrange(len(order))
    shift += len(existing) // len(order)
    placed = []
    # There are few different places, also for ten thousand partitions.
    known: dict[tuple[int, int], Replicas] = {}
    racks_count = _racks_count(brokers)
    shifts = max(len(order) - 1, 1)
    for number in range(len(existing), len(existing) + partitions):
        if number > len(existing) and number % len(order) == 0:
            shift += 1
        place = (number + start) % len(order), shift % shifts
        replicas = known.get(place)
        if replicas is None:
            replicas = known[place] = _replicas(brokers, order, replication_factor, *place, racks_count=racks_count)
        placed.append(replicas)
    return placed


def check_assignment(
    partitions: Sequence[Sequence[int]],
    brokers: Collection[int],
    *,
    first: int = 0,
    replication_factor: int | None = None,
) -> list[Replicas]:
    """
    Check a manual assignment.

    :param partitions: replicas of each new partition.
    :param first: the number of the first of them.
    :param replication_factor: what the topic's other partitions have.
    :raise ApiError: INVALID_REPLICA_ASSIGNMENT.
    """

    def refused(why: str) -> ApiError:
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)

    if not partitions:
        raise refused("the assignment names no partition")
    alive = set(brokers)
    checked = []
    for number, given in enumerate(partitions, first):
        replicas = tuple(given)
        if not replicas:
            raise refused(f"partition {number} has no replicas")
        if len(set(replicas)) != len(replicas):
            raise refused(f"partition {number} names a broker twice: {list(replicas)}")
        unknown = sorted(set(replicas) - alive)
        if unknown:
            raise refused(f"partition {number} names brokers that are not alive: {unknown}")
        if replication_factor is None:
            replication_factor = len(replicas)
        if len(replicas) != replication_factor:
            raise refused(f"partition {number} has {len(replicas)} replicas where others have {replication_factor}")
        checked.append(replicas)
    return checked


def _by_turns(brokers: Mapping[int, str | None]) -> list[int]:
    """Broker ids in ascending order or, when all racks are known, one from each rack in turn."""
    if not _racks_count(brokers):
        return sorted(brokers)
    racks: dict[str, list[int]] = {}
    for broker_id in sorted(brokers):
        racks.setdefault(str(brokers[broker_id]), []).append(broker_id)
    longest = max(len(members) for members in racks.values())
    return [racks[rack][turn] for turn in range(longest) for rack in sorted(racks) if turn < len(racks[rack])]


def _racks_count(brokers: Mapping[int, str | None]) -> bool:
    return all(rack is not None for rack in brokers.values())


def _replicas(
    brokers: Mapping[int, str | None],
    order: Sequence[int],
    replication_factor: int,
    leader: int,
    shift: int,
    *,
    racks_count: bool,
) -> Replicas:
    chosen = [order[leader]]
    candidates = [
        order[(leader + 1 + (shift + step) % (len(order) - 1)) % len(order)] for step in range(len(order) - 1)
    ]
    if not racks_count:
        return tuple(chosen + candidates[: replication_factor - 1])
    racks = set(brokers.values())
    used = {brokers[chosen[0]]}
    while len(chosen) < replication_factor:
        if len(used) == len(racks):
            used = set()  # Every rack has as many as the others: begin another round.
        pick = next((one for one in candidates if one not in chosen and brokers[one] not in used), None)
        if pick is None:
            used = set()  # The racks left in this round have no further broker.
            continue
        chosen.append(pick)
        used.add(brokers[pick])
    return tuple(chosen)
