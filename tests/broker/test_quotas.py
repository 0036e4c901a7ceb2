"""The quotas of a broker's clients."""

from __future__ import annotations

from logbus.broker.quotas import build_connection_rates, build_quotas, throttle_seconds
from logbus.cluster.security_nodes import SecurityNodes
from logbus.config import ConfigView
from logbus.ilogbus import Listener
from logbus.metastore.security_znodes import EntityZnode
from logbus.metrics import Registry
from logbus.quotas.quota_table import Quota
from tests.handlers.kit import HandlerCase, a_batch, produce_request


def test_the_configuration() -> None:
    """The windows and the quotas of all come from Kafka's keys; those of the metadata precede them."""
    settings = {
        "quota.window.num": "3",
        "quota.window.size.seconds": "2",
        "quota.producer.default": "10",
        "quota.consumer.default": "20",
    }
    nodes, registry = SecurityNodes(), Registry()
    nodes.change({EntityZnode.path({"user": "u"}): EntityZnode.encode({"producer_byte_rate": "5"})})
    quotas = build_quotas(ConfigView.load(set=settings), lambda: 0.0, nodes, throttle_seconds(registry))
    assert quotas.produce.quotas.find("u", "c") == Quota(5, ("u", None))
    assert quotas.fetch.quotas.find("u", "c") == Quota(20, (None, "c"))
    assert quotas.produce.record("u", "c", 25) == 3
    assert quotas.produce.record("u", "c", 1000) == 6
    samples = [sample for family in registry.collect() for sample in family.samples if sample]
    found = {(each.name, each.labels): each.value for each in samples}
    assert found["logbus_throttle_seconds_count", (("quota", "produce"),)] == 2
    assert found["logbus_throttle_seconds_sum", (("quota", "produce"),)] == 9
    assert found["logbus_throttle_seconds_count", (("quota", "request"),)] == 0


def test_without_quotas() -> None:
    """By default nobody has one."""
    assert not build_quotas(ConfigView.load(), lambda: 0.0, SecurityNodes(), throttle_seconds(Registry())).is_active


def test_new_connections_of_brokers() -> None:
    """The rate of all new connections is not that of the brokers' listener; it is that of every other."""
    config = ConfigView.load(set={"max.connection.creation.rate": "1"})
    listeners = [Listener(name, "kafka", "tcp:0") for name in ("clients", "brokers")]
    for protected, throttled in (("brokers", ["clients"]), (None, ["brokers", "clients"])):
        seconds = throttle_seconds(Registry())
        rates = build_connection_rates(config, listeners, lambda: 0.0, SecurityNodes(), seconds, protected)
        assert rates.is_active
        waits = {name: [rates.delay(name) for _ in range(3)][-1] for name in ("brokers", "clients")}
        assert [name for name, wait in waits.items() if wait] == throttled


class ProduceQuotaTests(HandlerCase):
    """Producers over a quota that was set while they are connected: general and coalesced requests."""

    def throttled(self, count: int, version: int, acks: int) -> list[int]:
        for _ in range(count):
            self.client.send(produce_request(a_batch(bytes(900)), acks=acks), version)
        found = []
        while len(found) < count:
            found += [answer.throttle_time_ms for answer in self.client.answers()]
            self.client.turn(0.1)
        return found

    def test_producers(self) -> None:
        for version in (3, 9, 12):
            for acks in (1, -1):
                self.assertEqual(self.throttled(8, version, acks), [0] * 8)
        path = EntityZnode.path({"user": "ANONYMOUS"})
        nodes = self.server.broker.member.metadata.security_nodes
        nodes.change({path: EntityZnode.encode({"producer_byte_rate": "2000"})})
        for version in (3, 9, 12):
            for acks in (1, -1):
                begun = self.server.reactor.seconds()
                waits = self.throttled(20, version, acks)
                self.assertTrue(all(waits[3:]), waits)
                self.assertLess(max(waits), 700)
                self.assertTrue(7 < self.server.reactor.seconds() - begun < 12)
        nodes.change({path: None})
        self.client.turn(20)
        self.assertEqual(self.throttled(8, 9, 1), [0] * 8)
