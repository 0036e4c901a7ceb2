"""
Chooses the partition of a record: by its key, as the Java client does, or, without a key, one partition for as many
bytes as a batch has, and then another (KIP-480, KIP-794).

A partitioner is any callable that takes the topic's name, the key, the value and the numbers of the topic's partitions,
and returns one of these numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from attrs import define, field

from logbus.records.implementations import partition_for_key
from logbus.records.murmur import murmur2

__all__ = ["Partitioner", "RoundRobin", "Uniform", "choose", "murmur2", "partition_for_key"]

T = TypeVar("T")
Partitioner = Callable[[str, bytes | None, bytes | None, Sequence[int]], int]


def choose(random: Random, candidates: Sequence[T], loads: Sequence[int]) -> T:
    """
    A random candidate; the more batches wait for one, the less likely it is chosen (KIP-794).

    :param loads: the number of batches that wait for each.
    """
    most = max(loads) + 1
    if most == 1:
        return candidates[int(random.random() * len(candidates))]
    return random.choices(candidates, [most - load for load in loads])[0]


@define(eq=False)
class RoundRobin:
    """Sends each record to the next partition, whatever its key (Kafka: RoundRobinPartitioner)."""

    _turns: dict[str, int] = field(factory=dict, init=False)

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int]) -> int:
        turn = self._turns.get(topic, -1) + 1
        self._turns[topic] = turn
        return partitions[turn % len(partitions)]


@define(eq=False)
class Uniform:
    """
    Sends some records to one partition and then to another, whatever their keys (Kafka: UniformStickyPartitioner).
    """

    random: Random
    records: int = 100
    _current: dict[str, tuple[int, int]] = field(factory=dict, init=False)

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int]) -> int:
        current, left = self._current.get(topic, (-1, 0))
        if not left or current not in partitions:
            others = [each for each in partitions if each != current] or partitions
            current, left = self.random.choice(others), self.records
        self._current[topic] = current, left - 1
        return current
