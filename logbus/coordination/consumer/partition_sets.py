"""
Immutable sets of partitions by topic id. Topics without partitions are left out, so equal sets compare equal. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

TopicId = bytes
"""The 16 bytes of a topic's id, as on the wire."""

Partitions = Mapping[TopicId, frozenset[int]]
"""Partition numbers by topic id. Never changed in place."""

NO_PARTITIONS: Partitions = {}


class WireTopicPartitions(Protocol):
    """The partitions of one topic in any message."""

    topic_id: bytes
    partitions: list[int]


def from_wire(topics: Iterable[WireTopicPartitions]) -> Partitions:
    """The set in a message; entries of the same topic are merged."""
    found: dict[TopicId, frozenset[int]] = {}
    for topic in topics:
        if topic.partitions:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()).union(topic.partitions)
    return found


def from_pairs(pairs: Iterable[tuple[TopicId, int]]) -> Partitions:
    """A set from single partitions."""
    found: dict[TopicId, set[int]] = {}
    for topic_id, number in pairs:
        found.setdefault(topic_id, set()).add(number)
    return {topic_id: frozenset(numbers) for topic_id, numbers in found.items()}


def pairs(partitions: Partitions) -> Iterator[tuple[TopicId, int]]:
    """The partitions one by one."""
    for topic_id, numbers in partitions.items():
        for number in numbers:
            yield topic_id, number


def count(partitions: Partitions) -> int:
    """Number of partitions."""
    return sum(map(len, partitions.values()))


def union(a: Partitions, b: Partitions) -> Partitions:
    """The union of two sets."""
    if not b:
        return a
    if not a:
        return b
    return {
        topic_id: a.get(topic_id, frozenset()) | b.get(topic_id, frozenset())
        for topic_id in (*a, *(topic_id for topic_id in b if topic_id not in a))
    }


def intersection(a: Partitions, b: Partitions) -> Partitions:
    """The intersection of two sets."""
    return _kept((topic_id, numbers & b[topic_id]) for topic_id, numbers in a.items() if topic_id in b)


def difference(a: Partitions, b: Partitions) -> Partitions:
    """The partitions in ``a`` that are not in ``b``."""
    return _kept((topic_id, numbers - b.get(topic_id, frozenset())) for topic_id, numbers in a.items())


def is_subset(a: Partitions, b: Partitions) -> bool:
    """Whether all of ``a`` is in ``b``."""
    return all(numbers <= b.get(topic_id, frozenset()) for topic_id, numbers in a.items())


def _kept(sets: Iterable[tuple[TopicId, frozenset[int]]]) -> Partitions:
    return {topic_id: numbers for topic_id, numbers in sets if numbers}
