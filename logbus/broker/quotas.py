"""
Builds the quotas of clients from the configuration and the metadata.
"""

from __future__ import annotations

from collections.abc import Callable

from logbus.cluster.quota_subscriber import QuotaSubscriber
from logbus.cluster.security_nodes import SecurityNodes
from logbus.config import ConfigView, keys
from logbus.metrics import Registry
from logbus.quotas.client_quota_manager import ClientQuotaManager
from logbus.quotas.quota_managers import CONTROLLER_MUTATION, FETCH, PRODUCE, REQUEST, QuotaManagers
from logbus.quotas.quota_table import QuotaTable

THROTTLE_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Seconds: from a client just over its quota to one that waits for all windows."""


def build_quotas(
    config: ConfigView, now: Callable[[], float], nodes: SecurityNodes, registry: Registry
) -> QuotaManagers:
    """
    Return the quotas, which follow the metadata from now on.

    :param now: the time, in seconds.
    :param nodes: have the quotas of users and client ids.
    """
    windows = config.get(keys.QUOTA_WINDOW_NUM), config.get(keys.QUOTA_WINDOW_SIZE_SECONDS)
    seconds = registry.histogram(
        "logbus_throttle_seconds",
        "For how long clients over a quota had to wait, each time they had to.",
        ("quota",),
        THROTTLE_BUCKETS,
    )

    def manager(kind: str, default: float | None = None) -> ClientQuotaManager:
        return ClientQuotaManager(QuotaTable(default), now, *windows, seconds.labels(quota=kind).observe)

    managers = QuotaManagers(
        manager(PRODUCE, config.get(keys.QUOTA_PRODUCER_DEFAULT)),
        manager(FETCH, config.get(keys.QUOTA_CONSUMER_DEFAULT)),
        manager(REQUEST),
        ClientQuotaManager(
            QuotaTable(),
            now,
            config.get(keys.CONTROLLER_QUOTA_WINDOW_NUM),
            config.get(keys.CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS),
            seconds.labels(quota=CONTROLLER_MUTATION).observe,
            in_bursts=True,
        ),
    )
    QuotaSubscriber(managers).follow(nodes)
    return managers
