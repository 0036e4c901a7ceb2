"""Looks up the partition count of a topic to write to, which brokers may create automatically."""

from __future__ import annotations

import time
from collections.abc import Callable

from logbus.client.cluster.topic_metadata import TopicMetadata
from logbus.errors import ApiError, ErrorCode
from logbus.pipeline.blocking.brokers import Brokers
from logbus.pipeline.blocking.retry import with_retries
from logbus.pipeline.errors import PipelineError
from logbus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

_PAUSE = 0.1


def partition_count(
    brokers: Brokers,
    name: str,
    seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """
    The number of partitions of a topic. An unknown topic is requested as producers do, so that brokers may create it.

    :param seconds: to wait until it exists.
    :raises PipelineError: there is no such topic.
    :raises ApiError: access is denied, or the name is invalid.
    """
    deadline = clock() + seconds
    asked = False
    creating = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    while True:
        found = with_retries(brokers.settings, lambda: _known(brokers, name))
        if found is not None:
            return len(found.partitions)
        if not asked:
            asked = True
            with_retries(brokers.settings, lambda: brokers.any().request(creating))
        elif clock() > deadline:
            raise PipelineError(
                f"there is no topic {name!r}, and the brokers do not create it by themselves; create it first"
            )
        else:
            sleep(_PAUSE)


def _known(brokers: Brokers, name: str) -> TopicMetadata | None:
    try:
        return brokers.topic(name)
    except ApiError as e:
        if e.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        raise
