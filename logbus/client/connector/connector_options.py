"""The options of a connector, checked."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from logbus.client.consumer.fetch_options import FetchOptions
from logbus.errors import ConfigError

Storage = Literal["zookeeper", "kafka"]


def _is_storage(options: object, attribute: Any, value: object) -> None:
    if value not in ("zookeeper", "kafka"):
        raise ConfigError(f"{attribute.name} {value!r}: expected zookeeper or kafka")


def _is_positive(options: object, attribute: Any, value: float) -> None:
    if not value > 0:
        raise ConfigError(f"{attribute.name} {value}: expected more than 0 s")


def _is_number(options: object, attribute: Any, value: int) -> None:
    if value < 0:
        raise ConfigError(f"{attribute.name} {value}: expected 0 or more")


@frozen(kw_only=True)
class ConnectorOptions:
    """
    Parameters of :class:`~logbus.client.connector.consumer_connector.ConsumerConnector`, by the same names.

    :ivar fetching: the options of each stream's fetcher, among them where to start without a committed offset.
    """

    offsets_storage: Storage = field(validator=_is_storage)
    auto_commit: bool
    auto_commit_interval: float = field(validator=_is_positive)
    rebalance_max_retries: int = field(validator=_is_number)
    rebalance_backoff: float = field(validator=_is_positive)
    finish_timeout: float
    offsets_timeout: float = field(validator=_is_positive)
    exclude_internal_topics: bool
    fetching: FetchOptions
