"""
Plans which partitions move among the workers of a machine (``logbus cluster rebalance``). Pure.

Workers should hold as many partitions as one another, of each topic too, as its clients are busy at the same time; then
as many bytes, as far as that takes only exchanges within a topic. What is even enough stays where it is, and a plan
that was carried out leads to no other.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from logbus.errors import LogbusError
from logbus.model import TopicPartition

Load = Mapping[int, Mapping[TopicPartition, int]]
"""By worker (its broker id), what it holds: partitions with their bytes."""

UNEVEN_BYTES = 0.1
"""The difference of two workers' bytes that is not worth an exchange, as a share of what a worker has."""
MOST_EXCHANGES = 10_000

_WORKER = re.compile(r"(.*)/workers/([1-9][0-9]*)")


class CannotRebalance(LogbusError):
    """There is no plan."""


@frozen
class Move:
    """A replica of a partition that goes to another worker."""

    partition: TopicPartition
    origin: int
    target: int
    size: int


def machines(directories: Mapping[int, tuple[str, Sequence[str]]]) -> list[tuple[int, ...]]:
    """
    Find the brokers that are workers of one machine: worker k has ``workers/k`` below the first one's directories.

    :param directories: each broker's host, and the paths of its log directories.
    :returns: the broker ids of each machine with several workers, in the workers' order.
    """
    found: dict[int, dict[int, int]] = {}
    for broker, (host, paths) in directories.items():
        parts = [_WORKER.fullmatch(path) for path in paths]
        if not parts or None in parts:
            continue
        numbers = {int(part[2]) for part in parts if part is not None}
        index = min(numbers)
        first = directories.get(broker - index)
        above = sorted(part[1] for part in parts if part is not None)
        if len(numbers) == 1 and first is not None and (first[0], sorted(first[1])) == (host, above):
            found.setdefault(broker - index, {0: broker - index})[index] = broker
    return [tuple(each[index] for index in sorted(each)) for _, each in sorted(found.items())]


def rebalanced(load: Load, stay: Sequence[int]) -> list[Move]:
    """
    Plan the moves of one machine.

    :param load: of all its workers.
    :param stay: the workers that are to hold partitions; the others are emptied.
    :raise CannotRebalance: a partition has more replicas here than workers stay.
    """
    after = {worker: dict(held) for worker, held in load.items()}
    _empty(after, stay)
    kept = {worker: after[worker] for worker in stay}
    _even_counts(kept)
    _even_topics(kept)
    _even_bytes(kept)
    return list(_moves(load, after))


def replicas_after(replicas: Sequence[int], moves: Iterable[Move]) -> tuple[int, ...]:
    """The replicas of a partition after moves of it: each new one is in the place of the former."""
    target = {move.origin: move.target for move in moves}
    return tuple(target.get(broker, broker) for broker in replicas)


def _moves(load: Load, after: Load) -> Iterable[Move]:
    for name in sorted({name for held in load.values() for name in held}):
        sizes = {worker: held[name] for worker, held in load.items() if name in held}
        here = {worker for worker, held in after.items() if name in held}
        for origin, target in zip(sorted(sizes.keys() - here), sorted(here - sizes.keys()), strict=True):
            yield Move(name, origin, target, sizes[origin])


_Held = dict[int, dict[TopicPartition, int]]


def _of(held: Mapping[TopicPartition, int], topic: str) -> list[TopicPartition]:
    return [name for name in held if name.topic == topic]


def _topics(held: Iterable[TopicPartition]) -> Counter[str]:
    return Counter(name.topic for name in held)


def _give(after: _Held, name: TopicPartition, origin: int, target: int) -> None:
    after[target][name] = after[origin].pop(name)


def _empty(after: _Held, stay: Sequence[int]) -> None:
    """Give what others hold to those that stay."""
    topics = {worker: _topics(after[worker]) for worker in stay}
    sizes = {worker: sum(after[worker].values()) for worker in stay}
    for origin in sorted(after.keys() - set(stay)):
        for name, size in sorted(after[origin].items(), key=lambda item: (-item[1], item[0])):
            free = [worker for worker in stay if name not in after[worker]]
            if not free:
                raise CannotRebalance(f"{name} has more replicas on this machine than workers stay: {list(stay)}")
            target = min(free, key=lambda one: (len(after[one]), topics[one][name.topic], sizes[one], one))
            _give(after, name, origin, target)
            topics[target][name.topic] += 1
            sizes[target] += size


def _even_counts(kept: _Held) -> None:
    """Make the numbers of partitions equal, or differ by one."""
    topics = {worker: _topics(held) for worker, held in kept.items()}
    sizes = {worker: sum(held.values()) for worker, held in kept.items()}
    while True:
        order = sorted(kept, key=lambda worker: (len(kept[worker]), sizes[worker], worker))
        for light, heavy in ((one, other) for one in order for other in reversed(order)):
            if len(kept[heavy]) - len(kept[light]) < 2:
                continue
            free = [name for name in kept[heavy] if name not in kept[light]]
            if free:
                break
        else:
            return
        surplus, wanted = topics[heavy] - topics[light], (sizes[heavy] - sizes[light]) / 2
        name = min(free, key=lambda one: (-surplus[one.topic], abs(kept[heavy][one] - wanted), one))
        for worker, sign in ((heavy, -1), (light, 1)):
            topics[worker][name.topic] += sign
            sizes[worker] += sign * kept[heavy][name]
        _give(kept, name, heavy, light)


def _even_topics(kept: _Held) -> None:
    """Exchange partitions of topics of which one worker has more for those of which the other has more."""
    topics = {worker: _topics(held) for worker, held in kept.items()}
    changed = True
    while changed:
        changed = False
        for one in kept:
            for other in kept:
                pair = _topics_to_exchange(topics[one], topics[other], kept[one], kept[other])
                if pair is None:
                    continue
                given, taken = pair
                _give(kept, given, one, other)
                _give(kept, taken, other, one)
                for worker, topic, sign in (
                    (one, given.topic, -1),
                    (other, given.topic, 1),
                    (other, taken.topic, -1),
                    (one, taken.topic, 1),
                ):
                    topics[worker][topic] += sign
                changed = True


def _topics_to_exchange(
    mine: Counter[str], theirs: Counter[str], held: Mapping[TopicPartition, int], others: Mapping[TopicPartition, int]
) -> tuple[TopicPartition, TopicPartition] | None:
    """A partition to give, and one to take for it, if each topic is more even then, or as even."""
    surplus = {topic: mine[topic] - theirs[topic] for topic in sorted(mine.keys() | theirs.keys())}
    if not surplus:
        return None
    most, least = max(surplus, key=surplus.__getitem__), min(surplus, key=surplus.__getitem__)
    if surplus[most] - surplus[least] <= 2:
        return None
    given = [name for name in _of(held, most) if name not in others]
    taken = [name for name in _of(others, least) if name not in held]
    if not given or not taken:
        return None
    # Towards even bytes.
    if sum(held.values()) > sum(others.values()):
        return max(given, key=lambda name: (held[name], name)), min(taken, key=lambda name: (others[name], name))
    return min(given, key=lambda name: (held[name], name)), max(taken, key=lambda name: (others[name], name))


def _even_bytes(kept: _Held) -> None:
    """Exchange larger partitions for smaller ones of the same topics, between those with the most and the fewest."""
    sizes = {worker: sum(held.values()) for worker, held in kept.items()}
    for _ in range(MOST_EXCHANGES):
        heavy = max(kept, key=lambda worker: (sizes[worker], worker))
        light = min(kept, key=lambda worker: (sizes[worker], worker))
        excess, small = sizes[heavy] - sizes[light], UNEVEN_BYTES * sum(sizes.values()) / len(kept)
        best = _bytes_to_exchange(kept[heavy], kept[light], excess / 2) if excess > small else None
        if best is None:
            return
        difference = kept[heavy][best[0]] - kept[light][best[1]]
        if min(difference, excess - difference) * 2 < small:
            # It would not make much of a difference.
            return
        _give(kept, best[0], heavy, light)
        _give(kept, best[1], light, heavy)
        sizes[heavy] -= difference
        sizes[light] += difference


def _bytes_to_exchange(
    heavy: Mapping[TopicPartition, int], light: Mapping[TopicPartition, int], wanted: float
) -> tuple[TopicPartition, TopicPartition] | None:
    """Two partitions of one topic whose sizes differ by about as much as is wanted."""
    best: tuple[float, TopicPartition, TopicPartition] | None = None
    smaller: dict[str, list[tuple[int, TopicPartition]]] = {}
    for name, size in light.items():
        if name not in heavy:
            smaller.setdefault(name.topic, []).append((size, name))
    for each in smaller.values():
        each.sort()
    for name, size in heavy.items():
        found = smaller.get(name.topic, ()) if name not in light else ()
        at = bisect_left(found, size - wanted, key=lambda pair: pair[0])
        for other_size, other in found[max(0, at - 1) : at + 1]:
            if other_size < size:
                candidate = (abs(size - other_size - wanted), name, other)
                best = candidate if best is None else min(best, candidate)
    return None if best is None else best[1:]
