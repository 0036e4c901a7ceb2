"""Compares what brokers know of remote segments with the objects that are there: nothing is forgotten or missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from logbus.storage.remote import object_names
from logbus.storage.remote.remote_log_segment import COPY_FINISHED
from logbus.testing.simulation.environment.broker_node import BrokerNode

_ALWAYS = (object_names.SNAPSHOT, object_names.LEADER_EPOCHS, object_names.CHUNKS, object_names.LOG)


def sweep_again(nodes: Sequence[BrokerNode]) -> None:
    """Have leaders look for objects without metadata, as they do when they are elected."""
    for node in nodes:
        manager = node.broker.remote_logs.manager
        if manager is not None:
            for task in manager.tasks:
                task.swept_epoch = -1


def differences(nodes: Sequence[BrokerNode], objects: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """
    What is in the store and should not be, or should be and is not, by kind and description.

    :param nodes: all of them, up.
    """
    found: list[tuple[str, str]] = []
    known: set[str] = set()
    for node in nodes:
        for replica in node.broker.replication.replicas:
            log, remote = replica.log, replica.log.remote
            if remote is None or not replica.partition.is_leader:
                continue
            name = replica.topic_partition
            for segment in remote.index:
                what = f"{name}: offsets {segment.start_offset} to {segment.end_offset}, {segment.segment_id}"
                if segment.state is not COPY_FINISHED:
                    found.append(("remote-unfinished", f"{what} is {segment.state.name}"))
                elif segment.end_offset <= log.log_start_offset:
                    found.append(("remote-kept", f"{what} is before the log's start at {log.log_start_offset}"))
                else:
                    names = [object_names.name_of(segment, suffix) for suffix in object_names.ALL]
                    known.update(names)
                    lost = [object_names.name_of(segment, each) for each in _ALWAYS]
                    if missing := [each for each in lost if each not in objects]:
                        found.append(("remote-lost", f"{what} has no {missing}"))
                    elif len(objects[names[-1]]) != segment.size:
                        size = len(objects[names[-1]])
                        found.append(("remote-lost", f"{what} has {size} bytes of {segment.size}"))
    leaked = sorted(set(objects) - known)
    return [*found, *(("remote-leak", f"{each} belongs to no segment") for each in leaked)]
