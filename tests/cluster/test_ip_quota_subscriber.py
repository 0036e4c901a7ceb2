"""The rates of addresses, as the metadata have them."""

from __future__ import annotations

from logbus.cluster.ip_quota_subscriber import IpQuotaSubscriber
from logbus.cluster.security_nodes import SecurityNodes
from logbus.metastore.security_znodes import EntityZnode
from logbus.quotas.connection_rates import ConnectionRates


def test_follow() -> None:
    """Rates are in force as they change; damaged nodes change nothing."""
    nodes, rates = SecurityNodes(), ConnectionRates(lambda: 0.0)
    one, every = (EntityZnode.path({"ip": ip}) for ip in ("10.0.0.1", None))
    nodes.change({one: EntityZnode.encode({"connection_creation_rate": "2"})})
    IpQuotaSubscriber(rates).follow(nodes)
    assert [bool(rates.refuse("10.0.0.1")) for _ in range(3)] == [False, False, True]
    assert not any(rates.refuse("10.0.0.2") for _ in range(9))
    nodes.change({every: EntityZnode.encode({"connection_creation_rate": "1"})})
    assert [bool(rates.refuse("10.0.0.3")) for _ in range(2)] == [False, True]
    nodes.change({every: b"damaged"})
    assert rates.refuse("10.0.0.3")
    nodes.change({every: None, one: None})
    assert not rates.is_active
