"""
Builds the quotas of clients and connections from the configuration and the metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from logbus.cluster.ip_quota_subscriber import IpQuotaSubscriber
from logbus.cluster.quota_subscriber import QuotaSubscriber
from logbus.cluster.security_nodes import SecurityNodes
from logbus.config import ConfigView, keys
from logbus.ilogbus import Listener
from logbus.listener_config import KAFKA
from logbus.metrics import Histogram, Registry
from logbus.quotas.client_quota_manager import ClientQuotaManager
from logbus.quotas.connection_rates import ConnectionRates
from logbus.quotas.quota_managers import CONTROLLER_MUTATION, FETCH, PRODUCE, REQUEST, QuotaManagers
from logbus.quotas.quota_table import QuotaTable

THROTTLE_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Seconds: from a client just over its quota to one that waits for all windows."""


def throttle_seconds(registry: Registry) -> Histogram:
    """Return the histogram of all waits for quotas."""
    return registry.histogram(
        "logbus_throttle_seconds",
        "For how long clients over a quota had to wait, each time they had to.",
        ("quota",),
        THROTTLE_BUCKETS,
    )


def build_quotas(
    config: ConfigView, now: Callable[[], float], nodes: SecurityNodes, seconds: Histogram
) -> QuotaManagers:
    """
    Return the quotas, which follow the metadata from now on.

    :param now: the time, in seconds.
    :param nodes: have the quotas of users and client ids.
    :param seconds: observes the waits.
    """
    windows = config.get(keys.QUOTA_WINDOW_NUM), config.get(keys.QUOTA_WINDOW_SIZE_SECONDS)

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


def build_connection_rates(
    config: ConfigView,
    listeners: Iterable[Listener],
    now: Callable[[], float],
    nodes: SecurityNodes,
    seconds: Histogram,
    protected: str | None,
) -> ConnectionRates:
    """
    Return the rates of new connections, which follow the configuration and the metadata from now on.

    :param now: the time, in seconds.
    :param nodes: have the quotas of addresses.
    :param seconds: observes the waits.
    :param protected: the listener of the brokers, to which the rate of all listeners does not apply.
    """
    key = keys.MAX_CONNECTION_CREATION_RATE
    names = [listener.name for listener in listeners if listener.protocol == KAFKA]
    rates = ConnectionRates(
        now,
        () if protected is None else (protected,),
        lambda what, wait: seconds.labels(quota=f"connections_of_{what}").observe(wait),
    )

    def follow(view: ConfigView) -> None:
        # A listener without a rate of its own would fall back to the broker's.
        own = [name for name in names if view.listener_setting_name(name, key) != key.name]
        rates.set_listeners(view.get(key), {name: view.listener_get(name, key) for name in own})

    follow(config)
    config.subscribe((key,), follow)
    IpQuotaSubscriber(rates).follow(nodes)
    return rates
