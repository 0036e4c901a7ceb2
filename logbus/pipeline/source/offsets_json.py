"""
JSON of partitions and offsets, in options and checkpoints (Spark: JsonUtils). Pure.

``{"orders": {"0": 23, "1": -1}}`` means offset 23 of ``orders-0`` and the latest of ``orders-1``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from logbus.model import TopicPartition, topic_name_problem

PartitionOffsets = Mapping[TopicPartition, int]

_MAX_PARTITION = 2**31 - 1
_MAX_OFFSET = 2**63 - 1


def read_partitions(text: str) -> tuple[TopicPartition, ...]:
    """
    Parse ``{"orders": [0, 1]}``.

    :raises ValueError: it says what is wrong.
    """
    found = []
    for topic, numbers in _topics(text).items():
        if not isinstance(numbers, list):
            raise ValueError(f"topic {topic!r} needs a list of partitions")
        found += [TopicPartition(topic, _partition(topic, number)) for number in numbers]
    if not found:
        raise ValueError("it names no partitions")
    return tuple(sorted(set(found)))


def read_offsets(text: str, lowest: int) -> dict[TopicPartition, int]:
    """
    Parse ``{"orders": {"0": 23}}``.

    :param lowest: the lowest valid number: −2 for offsets, 0 for times.
    :raises ValueError: it says what is wrong.
    """
    return offsets_from_json(_topics(text), lowest)


def offsets_from_json(spelled: Mapping[str, Any], lowest: int = 0) -> dict[TopicPartition, int]:
    """
    Read offsets from decoded JSON.

    :raises ValueError: it says what is wrong.
    """
    found = {}
    for topic, numbers in spelled.items():
        if not isinstance(numbers, dict):
            raise ValueError(f"topic {topic!r} needs an object of partitions and numbers")
        for number, value in numbers.items():
            if not (number.isascii() and number.isdigit()):
                raise ValueError(f"{number!r} is no partition of topic {topic!r}")
            if type(value) is not int or not lowest <= value <= _MAX_OFFSET:
                raise ValueError(f"{value!r} is no number from {lowest} for {topic}-{number}")
            found[TopicPartition(topic, _partition(topic, int(number)))] = value
    return dict(sorted(found.items()))


def offsets_to_json(offsets: PartitionOffsets) -> dict[str, dict[str, int]]:
    """Offsets as JSON, sorted."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def partition_names(partitions: Iterable[TopicPartition]) -> str:
    """Names of partitions for a message: the first ten, and how many more."""
    some = sorted(partitions)
    more = f" and {len(some) - 10} more" if len(some) > 10 else ""
    return ", ".join(map(str, some[:10])) + more


def _topics(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(read, dict):
        raise ValueError("it is not a JSON object of topics")
    for topic in read:
        if problem := topic_name_problem(topic):
            raise ValueError(problem)
    return read


def _partition(topic: str, number: object) -> int:
    if type(number) is not int or not 0 <= number <= _MAX_PARTITION:
        raise ValueError(f"{number!r} is no partition of topic {topic!r}")
    return number
