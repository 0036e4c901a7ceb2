"""Reads the JSON files of partitions that Kafka's commands take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from logbus.cli.kafka_scripts.option_parser import UsageError
from logbus.model import TopicPartition


def read_json(path: str) -> Any:
    """
    The value in a file.

    :raise UsageError: it cannot be read.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as e:
        raise UsageError(f"Unable to read file {path}: {e.strerror}") from None
    except (ValueError, RecursionError) as e:
        raise UsageError(f"{path} is not JSON: {e}") from None


def read_partitions(path: str, fields: Mapping[str, type]) -> dict[TopicPartition, dict[str, Any]]:
    """
    The entries of ``{"partitions": [{"topic": …, "partition": …}]}``.

    :param fields: names and types of what else each has.
    :raise UsageError: the file is something else, or names a partition twice.
    """
    value = read_json(path)
    entries = value.get("partitions") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        raise UsageError(f'{path}: Missing required field "partitions"')
    found: dict[TopicPartition, dict[str, Any]] = {}
    for entry in entries:
        if not isinstance(entry, dict):
            raise UsageError(f"{path}: {json.dumps(entry)} is not a partition")
        for name, kind in {"topic": str, "partition": int, **fields}.items():
            if not isinstance(entry.get(name), kind) or isinstance(entry.get(name), bool):
                raise UsageError(f'{path}: {json.dumps(entry)} lacks "{name}", or it is no {kind.__name__}')
        partition = TopicPartition(entry["topic"], entry["partition"])
        if partition in found:
            raise UsageError(f"Offset json file contains duplicate topic partitions: {partition}")
        found[partition] = entry
    return found
