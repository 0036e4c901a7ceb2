"""Reads the logs of a partition on all of its brokers from their files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from logbus.testing.cluster import Cluster

# Base offset, length, leader epoch, magic, CRC, attributes, last offset delta.
_HEADER = struct.Struct(">qiibIhi")


class Batch(NamedTuple):
    """A record batch and its offsets, ``end`` being the next one."""

    start: int
    end: int
    epoch: int
    data: bytes


def directory_of(data_dir: Path, topic: str, partition: int) -> Path:
    """Where a replica is."""
    return data_dir / f"{topic}-{partition}"


def batches(data_dir: Path, topic: str, partition: int) -> Iterator[Batch]:
    """What a replica's segments hold, one after the other; up to what is not written wholly."""
    for path in sorted(directory_of(data_dir, topic, partition).glob("*.log")):
        data, at = path.read_bytes(), 0
        while at + _HEADER.size <= len(data):
            base, length, epoch, _, _, _, delta = _HEADER.unpack_from(data, at)
            if length <= 0 or at + 12 + length > len(data):
                break
            yield Batch(base, base + delta + 1, epoch, data[at : at + 12 + length])
            at += 12 + length


def end_of(data_dir: Path, topic: str, partition: int) -> int:
    """The offset after a replica's last record."""
    return max((batch.end for batch in batches(data_dir, topic, partition)), default=0)


def differences(cluster: Cluster, topic: str, partition: int, below: int) -> list[str]:
    """
    Where the replicas differ below an offset; nothing if they are the same bytes.

    :param below: the high watermark; every replica reaches that far.
    """
    found = []
    first, *others = cluster.brokers
    wanted = [batch for batch in batches(first.data_dir, topic, partition) if batch.start < below]
    if not wanted or wanted[-1].end < below:
        found.append(f"broker {first.id} ends before {below}")
    for other in others:
        theirs = [batch for batch in batches(other.data_dir, topic, partition) if batch.start < below]
        if len(theirs) != len(wanted):
            found.append(f"brokers {first.id} and {other.id} have {len(wanted)} and {len(theirs)} batches")
        for one, two in zip(wanted, theirs, strict=False):
            if one != two:
                found.append(
                    f"broker {first.id} has {one[:3]} where broker {other.id} has {two[:3]}"
                    + ("" if one[:3] != two[:3] else ", with other contents")
                )
                break
    return found


def wait_same(cluster: Cluster, topic: str, partitions: int = 1) -> list[str]:
    """
    Wait until all replicas end where their leader does, which nobody writes to any more; where they differ then.
    """
    found = []
    for partition in range(partitions):
        led = cluster.leader(topic, partition)
        end = end_of(led.data_dir, topic, partition)
        cluster.wait_until(
            lambda end=end, partition=partition: all(  # type: ignore[misc]
                end_of(broker.data_dir, topic, partition) == end for broker in cluster.brokers
            ),
            f"all replicas of {topic}-{partition} at {end}",
        )
        found += differences(cluster, topic, partition, end)
    return found
