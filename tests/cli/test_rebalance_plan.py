"""Which partitions move among the workers of a machine."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logbus.cli.rebalance_plan import CannotRebalance, Load, Move, machines, rebalanced, replicas_after
from logbus.model import TopicPartition

names = st.builds(TopicPartition, st.sampled_from(("a", "b", "c")), st.integers(0, 19))


@st.composite
def loads(draw: st.DrawFn) -> dict[int, dict[TopicPartition, int]]:
    """What some workers hold; each partition has one replica, as is usual on one machine."""
    workers = draw(st.integers(1, 5))
    load: dict[int, dict[TopicPartition, int]] = {worker: {} for worker in range(workers)}
    placed = st.tuples(st.integers(0, workers - 1), st.integers(0, 1000))
    for name, (worker, size) in draw(st.dictionaries(names, placed)).items():
        load[worker][name] = size
    return load


def carried_out(load: Load, moves: list[Move]) -> dict[int, dict[TopicPartition, int]]:
    after = {worker: dict(held) for worker, held in load.items()}
    for move in moves:
        after[move.target][move.partition] = after[move.origin].pop(move.partition)
    return after


@given(loads(), st.integers(1, 5))
def test_even(load: Load, workers: int) -> None:
    """Those that stay have as many as one another, the others nothing; nothing is lost, and then nothing moves."""
    stay = sorted(load)[:workers]
    moves = rebalanced(load, stay)
    after = carried_out(load, moves)
    assert len({move.partition for move in moves}) == len(moves)
    assert sorted(name for held in after.values() for name in held) == sorted(
        name for held in load.values() for name in held
    )
    counts = [len(after[worker]) for worker in stay]
    assert max(counts) - min(counts) <= 1
    assert sum(counts) == sum(map(len, load.values()))
    assert rebalanced(after, stay) == []


@given(loads())
def test_topics_are_even(load: Load) -> None:
    """No worker has many more partitions of a topic than another."""
    after = carried_out(load, rebalanced(load, sorted(load)))
    of_topics = [Counter(name.topic for name in held) for held in after.values()]
    for topic in ("a", "b", "c"):
        found = [each[topic] for each in of_topics]
        assert max(found) - min(found) <= 2


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=30))
def test_bytes(sizes: list[int]) -> None:
    """Of two workers neither has many more bytes, as far as partitions are small enough."""
    load: Load = {0: {TopicPartition("a", n): size for n, size in enumerate(sizes)}, 1: {}}
    after = carried_out(load, rebalanced(load, [0, 1]))
    one, other = (sum(held.values()) for held in after.values())
    assert abs(one - other) <= max(sizes) + sum(sizes) / 10


def test_a_single_broker_gets_a_second_worker() -> None:
    """Half of each topic goes over."""
    load: Load = {5: {TopicPartition(topic, n): 100 for topic in "ab" for n in range(4)}, 6: {}}
    moves = rebalanced(load, [5, 6])
    assert Counter((move.partition.topic, move.origin, move.target) for move in moves) == {
        ("a", 5, 6): 2,
        ("b", 5, 6): 2,
    }


def test_large_partitions() -> None:
    """As many partitions, but not as many bytes: some are exchanged."""
    sizes = {0: [900, 900, 900], 1: [10, 10, 10]}
    load: Load = {
        worker: {TopicPartition("a", worker * 10 + n): size for n, size in enumerate(each)}
        for worker, each in sizes.items()
    }
    after = carried_out(load, rebalanced(load, [0, 1]))
    assert [sum(held.values()) for held in after.values()] in ([1810, 920], [920, 1810])


def test_several_replicas_on_a_machine() -> None:
    """They stay on different workers; with fewer workers than replicas there is no plan."""
    name = TopicPartition("a", 0)
    load: Load = {0: {name: 5}, 1: {name: 5}, 2: {}}
    assert rebalanced(load, [0, 2]) == [Move(name, 1, 2, 5)]
    with pytest.raises(CannotRebalance):
        rebalanced(load, [0])


def test_replicas() -> None:
    """Those on other machines stay, and who comes first."""
    moves = [Move(TopicPartition("a", 0), 4, 5, 0), Move(TopicPartition("a", 0), 8, 9, 0)]
    assert replicas_after((4, 8, 1), moves) == (5, 9, 1)


def test_machines() -> None:
    """Brokers that have their directories below those of another one on the same host."""
    found = machines(
        {
            0: ("a", ["/x", "/y"]),
            1: ("a", ["/y/workers/1", "/x/workers/1"]),
            2: ("a", ["/x/workers/2", "/y/workers/2"]),
            10: ("b", ["/x"]),
            11: ("b", ["/x/workers/1"]),
            12: ("c", ["/x/workers/2"]),
            20: ("d", ["/x"]),
            31: ("d", ["/x/workers/11"]),
            40: ("e", ["/x"]),
            41: ("e", ["/y/workers/1"]),
            50: ("f", ["/x/workers/50"]),
            51: ("f", []),
        }
    )
    assert found == [(0, 1, 2), (10, 11), (20, 31)]
