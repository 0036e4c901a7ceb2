"""The options of a connector, checked."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from logbus.client.consumer.fetch_options import FetchOptions
from logbus.client.validators import checked, choice, integer, seconds

Storage = Literal["zookeeper", "kafka"]


_POSITIVE = checked(seconds, positive=True)


@frozen(kw_only=True)
class ConnectorOptions:
    """
    Parameters of :class:`~logbus.client.connector.consumer_connector.ConsumerConnector`, by the same names.

    :ivar fetching: the options of each stream's fetcher, among them where to start without a committed offset.
    """

    offsets_storage: Storage = field(validator=checked(choice, choices=("zookeeper", "kafka")))
    auto_commit: bool
    auto_commit_interval: float = field(validator=_POSITIVE)
    rebalance_max_retries: int = field(validator=checked(integer, least=0))
    rebalance_backoff: float = field(validator=_POSITIVE)
    finish_timeout: float
    offsets_timeout: float = field(validator=_POSITIVE)
    exclude_internal_topics: bool
    fetching: FetchOptions
