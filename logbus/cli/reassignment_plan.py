"""
Reassignment plans: reads and writes Kafka's JSON, generates balanced plans, compares plans with the assignment. Pure.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from logbus.errors import LogbusError
from logbus.model import TopicPartition

Replicas = tuple[int, ...]
Plan = Mapping[TopicPartition, Replicas]

VERSION = 1


class InvalidPlan(LogbusError):
    """The plan cannot be parsed or executed."""


def read_plan(text: str) -> dict[TopicPartition, Replicas]:
    """
    Parse ``{"version": 1, "partitions": [{"topic": …, "partition": 0, "replicas": [1, 2]}]}``
    into replicas by partition.

    :raise InvalidPlan: the text is not a plan.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise InvalidPlan(f"it is not JSON ({e})") from None
    if not isinstance(given, dict) or not isinstance(given.get("partitions"), list):
        raise InvalidPlan('expected {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}')
    if given.get("version", VERSION) != VERSION:
        raise InvalidPlan(f"it has version {given['version']!r}; expected {VERSION}")
    plan: dict[TopicPartition, Replicas] = {}
    for each in given["partitions"]:
        name, replicas = _entry(each)
        if name in plan:
            raise InvalidPlan(f"{name} is there twice")
        plan[name] = replicas
    if not plan:
        raise InvalidPlan("it names no partition")
    return plan


def _entry(given: Any) -> tuple[TopicPartition, Replicas]:
    if not isinstance(given, dict):
        raise InvalidPlan(f"{json.dumps(given)} is not a partition")
    number: Any
    topic, number, replicas = given.get("topic"), given.get("partition"), given.get("replicas")
    if not isinstance(topic, str) or not _whole(number):
        raise InvalidPlan(f'{json.dumps(given)}: expected "topic", a name, and "partition", a number')
    name = TopicPartition(topic, number)
    if not isinstance(replicas, list) or not replicas or not all(map(_whole, replicas)):
        raise InvalidPlan(f'{name}: "replicas" is not a list of broker ids')
    if len(set(replicas)) < len(replicas):
        raise InvalidPlan(f"{name} names a broker twice: {replicas}")
    if any(directory != "any" for directory in given.get("log_dirs") or ()):
        raise InvalidPlan(f'{name}: "log_dirs" can only be "any"; logbus log-dirs move chooses a directory of a broker')
    return name, tuple(replicas)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def write_plan(plan: Plan) -> str:
    """Return a plan as text, one line per partition."""
    lines = [
        json.dumps({"topic": name.topic, "partition": name.partition, "replicas": list(replicas)})
        for name, replicas in sorted(plan.items())
    ]
    return '{"version": 1, "partitions": [\n  ' + ",\n  ".join(lines) + "\n]}\n"


def changed_replicas(current: Plan, target: Plan) -> dict[TopicPartition, Replicas]:
    """Return the part of ``target`` that differs from ``current``."""
    return {name: replicas for name, replicas in target.items() if current.get(name) != replicas}


def spread_evenly(current: Plan, racks: Mapping[int, str | None]) -> dict[TopicPartition, Replicas]:
    """
    Spread replicas evenly over brokers with few moves; keeps each partition's replication factor.

    If all racks are known, replicas of a partition go to different racks first. Then the number of replicas per broker
    is balanced, then the number of preferred leaders.

    :param racks: the brokers to use: rack by id.
    :raise InvalidPlan: a partition has more replicas than there are brokers.
    """
    by_rack = dict(racks) if None not in racks.values() else {}
    plan: dict[TopicPartition, list[int]] = {}
    load = dict.fromkeys(sorted(racks), 0)
    for name, replicas in sorted(current.items()):
        if len(replicas) > len(racks):
            raise InvalidPlan(
                f"{name} has {len(replicas)} replicas, more than there are brokers to use: {sorted(racks)}"
            )
        plan[name] = [broker for broker in replicas if broker in racks]
        for broker in plan[name]:
            load[broker] += 1
    for name, held in plan.items():
        while len(held) < len(current[name]):
            chosen = min(
                (b for b in load if b not in held), key=lambda b: (_replicas_in_rack(held, b, by_rack), load[b], b)
            )
            held.append(chosen)
            load[chosen] += 1
    _even_out(plan, load, by_rack)
    _even_leaders(plan, load)
    return {name: tuple(held) for name, held in plan.items()}


def _replicas_in_rack(held: Iterable[int], broker: int, by_rack: Mapping[int, str | None]) -> int:
    """Count the replicas of a partition in a broker's rack."""
    return sum(by_rack[other] == by_rack[broker] for other in held) if by_rack else 0


def _even_out(
    plan: Mapping[TopicPartition, list[int]], load: dict[int, int], by_rack: Mapping[int, str | None]
) -> None:
    """Move replicas from brokers with more to brokers with at least two fewer, within racks."""
    moved = True
    while moved:
        moved = False
        for held in plan.values():
            for position, broker in enumerate(held):
                others = held[:position] + held[position + 1 :]
                allowed = _replicas_in_rack(others, broker, by_rack)
                better = [
                    one
                    for one in load
                    if one not in held
                    and load[one] + 1 < load[broker]
                    and _replicas_in_rack(others, one, by_rack) <= allowed
                ]
                if better:
                    chosen = min(better, key=lambda one: (load[one], one))
                    load[broker] -= 1
                    load[chosen] += 1
                    held[position] = chosen
                    moved = True


def _even_leaders(plan: Mapping[TopicPartition, list[int]], brokers: Iterable[int]) -> None:
    """Change the preferred leader to a replica whose broker leads at least two fewer partitions."""
    leads = Counter(dict.fromkeys(brokers, 0))
    leads.update(held[0] for held in plan.values())
    moved = True
    while moved:
        moved = False
        for held in plan.values():
            chosen = min(held, key=lambda broker: (leads[broker], held.index(broker)))
            if leads[chosen] + 1 < leads[held[0]]:
                leads[held[0]] -= 1
                leads[chosen] += 1
                held.remove(chosen)
                held.insert(0, chosen)
                moved = True


def throttled_replicas(current: Plan, target: Plan) -> dict[str, tuple[list[str], list[str]]]:
    """
    Return the values of ``leader.`` and ``follower.replication.throttled.replicas`` during a plan, by topic: existing
    replicas send, new ones fetch.
    """
    found: dict[str, tuple[list[str], list[str]]] = {}
    for name, replicas in sorted(changed_replicas(current, target).items()):
        senders, fetchers = found.setdefault(name.topic, ([], []))
        had = current.get(name, ())
        new = [broker for broker in replicas if broker not in had]
        if new:
            senders += [f"{name.partition}:{broker}" for broker in had]
            fetchers += [f"{name.partition}:{broker}" for broker in new]
    return {topic: both for topic, both in found.items() if both[1]}


def partitions_of(texts: Sequence[str]) -> list[TopicPartition]:
    """
    Parse ``TOPIC-PARTITION`` names, such as ``orders-0``.

    :raise InvalidPlan: one does not have this form.
    """
    found = []
    for text in texts:
        topic, dash, number = text.rpartition("-")
        if not dash or not topic or not number.isascii() or not number.isdigit() or int(number) >= 2**31:
            raise InvalidPlan(f"{text!r} is not TOPIC-PARTITION, such as orders-0")
        found.append(TopicPartition(topic, int(number)))
    return found
