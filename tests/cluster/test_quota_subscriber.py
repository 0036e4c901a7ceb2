"""Quotas in the metadata, and in force."""

from __future__ import annotations

from logbus.cluster.quota_subscriber import QuotaSubscriber
from logbus.cluster.security_nodes import SecurityNodes
from logbus.metastore.security_znodes import Entity, EntityZnode
from logbus.quotas.quota_managers import QuotaManagers
from logbus.quotas.quota_table import Quota


def node(entity: Entity, **settings: str) -> dict[str, bytes | None]:
    return {EntityZnode.path(entity): EntityZnode.encode(settings)}


def test_quotas_follow_the_metadata() -> None:
    """Those that are there at the start, and each change at once."""
    nodes, managers = SecurityNodes(), QuotaManagers()
    nodes.change(node({"user": "a/b", "client-id": None}, producer_byte_rate="5", request_percentage="2.5"))
    QuotaSubscriber(managers).follow(nodes)
    assert managers.produce.quotas.find("a/b", "c") == Quota(5, ("a/b", "c"))
    assert managers.request.quotas.find("a/b", "c") == Quota(2.5, ("a/b", "c"))
    nodes.change(node({"client-id": "c"}, consumer_byte_rate="7", unknown="1"))
    assert managers.fetch.quotas.find("x", "c") == Quota(7, (None, "c"))
    nodes.change(node({"user": "a/b", "client-id": None}, request_percentage="2.5"))
    assert managers.produce.quotas.find("a/b", "c") is None
    nodes.replace({})
    assert not managers.is_active


def test_nodes_that_cannot_be_read() -> None:
    """The quotas stay as they were, and others change all the same."""
    nodes, managers, failures = SecurityNodes(), QuotaManagers(), list[None]()
    nodes.failed = lambda: failures.append(None)
    QuotaSubscriber(managers).follow(nodes)
    nodes.change(node({"user": "u"}, producer_byte_rate="5"))
    path = EntityZnode.path({"user": "u"})
    broken: dict[str, bytes | None] = {path: b"{", "/config/users/u/clients": b"x", "/config/users/a%ZZ": b"{}"}
    nodes.change({**broken, **node({"user": "v"}, producer_byte_rate="6")})
    assert managers.produce.quotas.find("u", "") == Quota(5, ("u", None))
    assert managers.produce.quotas.find("v", "") == Quota(6, ("v", None))
    assert not failures
