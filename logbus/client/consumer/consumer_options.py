"""The options of a consumer besides its group's, checked (Kafka: ConsumerConfig)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic

from attrs import field, frozen

from logbus.client.consumer.consumer_record import K, V
from logbus.client.consumer.fetch_options import ISOLATIONS, RESETS, FetchOptions
from logbus.client.consumer.partition_position import Isolation, Reset
from logbus.client.interceptors import ConsumerInterceptor, ConsumerInterceptors
from logbus.client.serializers import Deserializer
from logbus.client.validators import checked, choice, flag, function, integer, objects, seconds, text

_MISSING_TOPICS = 5.0
"""Seconds for which a topic or partition may be missing before that is an error."""


def _chained(interceptors: Iterable[ConsumerInterceptor]) -> ConsumerInterceptors:
    return ConsumerInterceptors(objects("interceptors", interceptors, "on_consume"))


@frozen(kw_only=True)
class ConsumerOptions(Generic[K, V]):
    """Parameters of :class:`~logbus.client.consumer.consumer.Consumer`, by the same names."""

    auto_offset_reset: Reset = field(validator=checked(choice, choices=RESETS))
    enable_auto_commit: bool = field(validator=checked(flag))
    auto_commit_interval: float = field(validator=checked(seconds, positive=True))
    isolation_level: Isolation = field(validator=checked(choice, choices=ISOLATIONS))
    key_deserializer: Deserializer[K] | None = field(validator=checked(function))
    value_deserializer: Deserializer[V] | None = field(validator=checked(function))
    interceptors: ConsumerInterceptors = field(converter=_chained)
    client_rack: str | None = field(validator=checked(text, optional=True))
    fetch_max_wait: float = field(validator=checked(seconds, is_sent=True))
    fetch_min_bytes: int = field(validator=checked(integer, least=0))
    fetch_max_bytes: int = field(validator=checked(integer, least=1))
    max_partition_fetch_bytes: int = field(validator=checked(integer, least=1))
    queue_max_bytes: int = field(validator=checked(integer, least=1, most=2**63))

    @property
    def fetching(self) -> FetchOptions:
        """The options of the fetcher."""
        return FetchOptions(
            reset=self.auto_offset_reset,
            max_wait=self.fetch_max_wait,
            min_bytes=self.fetch_min_bytes,
            max_bytes=self.fetch_max_bytes,
            partition_max_bytes=self.max_partition_fetch_bytes,
            queue_bytes=self.queue_max_bytes,
            isolation=self.isolation_level,
            rack=self.client_rack,
            patience=_MISSING_TOPICS,
        )
