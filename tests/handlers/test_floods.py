"""Whoever floods a broker with groups, producers or connections is told of, by name."""

from __future__ import annotations

from twisted.logger import globalLogPublisher

from logbus.broker.condition_monitor import SECONDS
from logbus.conditions import CONNECTION_FLOOD, GROUP_FLOOD, PRODUCER_FLOOD
from logbus.net.arrivals import SPAN_SECONDS
from logbus.wire.messages.transactions import InitProducerIdRequest
from tests.handlers.group_kit import GroupCase, Member, commit
from tests.handlers.test_consumer_groups import Consumer
from tests.handlers.transaction_kit import OffsetProducer

FLOODS = (GROUP_FLOOD, PRODUCER_FLOOD, CONNECTION_FLOOD)
BY_TESTER = "most of them by address '10.0.0.1', client id 'tester'"


class FloodTests(GroupCase):
    config = {
        "group.flood.count": "8",
        "producer.id.flood.count": "5",
        "connection.flood.count": "12",
        "group.initial.rebalance.delay.ms": "0",
    }

    def setUp(self) -> None:
        super().setUp()
        self.logged: list[str] = []
        globalLogPublisher.addObserver(self._hear)
        self.addCleanup(globalLogPublisher.removeObserver, self._hear)

    def _hear(self, event: dict[str, object]) -> None:
        if "condition_monitor" in str(event.get("log_namespace")) and "flood" in str(event.get("kind")):
            self.logged.append(str(event["log_format"]).format(**event))

    def wrong(self) -> dict[str, str]:
        """What the next look finds of floods; jumps of the clock look like a late reactor."""
        self.client.turn(SECONDS)
        for _ in range(20):
            self.client.turn()
        conditions = self.server.broker.monitor.conditions
        return {each.kind.name: each.message for each in conditions if each.kind in FLOODS}

    def test_groups(self) -> None:
        """A group counts once, however it is created; what is loaded again at a start does not."""
        for number in range(2):
            self.group_of(Member(self.server.connect(), f"classic-{number}"))
            Consumer(self.client, f"m-{number}", f"consumer-{number}").send()
            commit(self.client, {("t", 0): 1}, f"manual-{number}")
            commit(self.client, {("t", 0): 2}, f"manual-{number}")
        producer = OffsetProducer(self.client).find()
        self.assertEqual(producer.commit({("t", 0): 1}, "transactional"), {("t", 0): 0})
        self.assertEqual(self.wrong(), {})
        commit(self.client, {("t", 0): 1}, "last")
        self.assertEqual(self.wrong(), {GROUP_FLOOD.name: f"8 new groups in 10 minutes, {BY_TESTER}"})
        self.assertEqual(
            self.logged, [f"group-flood (clients): 8 new groups in 10 minutes, {BY_TESTER}: {GROUP_FLOOD.advice}"]
        )
        commit(self.client, {("t", 0): 1}, "more")
        self.assertIn("9 new groups", self.wrong()[GROUP_FLOOD.name])
        self.assertEqual(len(self.logged), 1)
        self.restart()
        self.assertEqual(self.wrong(), {})

    def test_producers(self) -> None:
        """An idempotent producer counts each time, a transactional one once."""
        for _ in range(3):
            OffsetProducer(self.client).find()
        for _ in range(3):
            self.client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4)
        self.assertEqual(self.wrong(), {})
        self.client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4)
        self.assertEqual(self.wrong(), {PRODUCER_FLOOD.name: f"5 new producer ids in 10 minutes, {BY_TESTER}"})

    def test_connections(self) -> None:
        """Those that were closed count, too; after a while it is over."""
        for _ in range(12):
            self.server.connect("10.0.0.7").transport.loseConnection()
        said = "13 new connections in 10 minutes, most of them by address '10.0.0.7'"
        self.assertEqual(self.wrong(), {CONNECTION_FLOOD.name: said})
        for _ in range(2 * SPAN_SECONDS // 60):
            self.client.turn(60)
        self.assertEqual(self.wrong(), {})
        self.assertEqual(len(self.logged), 2)
        self.assertTrue(self.logged[1].startswith("over: connection-flood"), self.logged)
