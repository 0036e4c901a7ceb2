"""Tests of the registry of a cluster: requests to any broker reach the leader."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred

from logbus.registry.model import TOPIC
from logbus.registry.requests import RegistryRequest, RegistryResponse
from logbus.registry.resource import RegistryPlugin
from logbus.registry.service import RegistryService
from tests.cluster.memory_cluster import ClusterCase
from tests.registry.kit import GIFT, ORDER, PRICE
from tests.registry.test_service import registration, request


class RegistriesCase(ClusterCase):
    """Three brokers, each with the plugin."""

    def setUp(self) -> None:
        super().setUp()
        self.services: dict[int, RegistryService] = {}
        for broker_id in self.cluster.alive:
            self.mount(broker_id)

    def mount(self, broker_id: int) -> None:
        """As the admin listener does."""
        resource: Any = RegistryPlugin().resource(self.cluster[broker_id].broker.plugin_services)
        self.services[broker_id] = resource.service

    def begin(self, broker_id: int, what: RegistryRequest) -> list[RegistryResponse]:
        """Ask a broker; the answer will be in the list."""
        answers: list[RegistryResponse] = []
        asked: Deferred[RegistryResponse] = self.services[broker_id].answer(what)
        asked.addCallback(answers.append)
        return answers

    def asked(self, broker_id: int, what: RegistryRequest, seconds: float = 32) -> tuple[int, Any]:
        """Return a broker's answer."""
        answers = self.begin(broker_id, what)
        for _ in range(int(seconds / 0.05)):
            if answers:
                return answers[0].status, json.loads(answers[0].body)
            self.cluster.settle(0.05)
        raise AssertionError("no answer")

    def leader(self) -> int:
        """The broker that writes."""
        alive = self.cluster.alive[0]
        return self.cluster[alive].broker.plugin_services.leadership(TOPIC, 0).broker_id


class RegistriesTests(RegistriesCase):
    """Requests to any of them."""

    def test_any_broker(self) -> None:
        """Whichever broker is asked, all answer the same; what one has taken the others know at once."""
        ids = [
            self.asked(broker, registration("s", schema))[1]["id"] for broker, schema in enumerate((ORDER, GIFT, ORDER))
        ]
        self.assertEqual(ids, [1, 2, 1])
        for broker_id in self.cluster.alive:
            self.assertEqual(self.asked(broker_id, request("GET", "/subjects/s/versions")), (200, [1, 2]))
            self.assertEqual(self.asked(broker_id, registration("s", PRICE))[1]["error_code"], 409)
        topic = self.cluster[0].broker.member.metadata.topics[TOPIC]
        self.assertEqual((len(topic.partitions[0].replicas), topic.configs["min.insync.replicas"]), (3, "2"))

    def test_at_once(self) -> None:
        """Different schemas that come to different brokers at once have different ids; the same ones the same."""
        waiting = [
            self.begin(number % 3, registration(f"s{number}", {"type": "fixed", "name": "F", "size": number // 2}))
            for number in range(12)
        ]
        self.cluster.settle(10)
        ids = [json.loads(each[0].body)["id"] for each in waiting]
        self.assertEqual(sorted(ids), sorted([*range(1, 7)] * 2))
        self.assertEqual([ids[index] for index in range(0, 12, 2)], [ids[index] for index in range(1, 12, 2)])

    def test_killed_leader(self) -> None:
        """When the broker that writes is killed another one does, with all that was answered, and goes on counting."""
        self.asked(0, registration("s", ORDER))
        first = self.leader()
        self.asked(0, registration("s", GIFT))
        self.cluster.kill(first)
        alive = self.cluster.alive
        status, found = self.asked(alive[0], registration("t", "int"))
        self.assertEqual((status, found.get("id")), (200, 3), found)
        self.assertNotEqual(self.leader(), first)
        for broker_id in alive:
            self.assertEqual(self.asked(broker_id, request("GET", "/subjects/s/versions")), (200, [1, 2]))
        self.cluster.boot(first)
        self.mount(first)
        self.cluster.settle(5)
        self.assertEqual(self.asked(first, registration("u", "long"))[1]["id"], 4)

    def test_cut_off_writer(self) -> None:
        """A writer that is cut off takes nothing; what it had begun does not give an id to two schemas."""
        self.asked(0, registration("s", ORDER))
        first = self.leader()
        others = [each for each in self.cluster.alive if each != first]
        for each in others:
            self.cluster.cut(first, each)
        lost = self.begin(first, registration("lost", "int"))
        self.cluster.settle(1)
        self.assertEqual(lost, [])
        self.cluster.settle(40)
        self.assertEqual([each.status for each in lost], [500])
        self.cluster.mend()
        self.cluster.settle(20)
        found = [self.asked(broker, registration("t", "long"))[1].get("id") for broker in self.cluster.alive]
        self.assertEqual(len(set(found)), 1, found)
        self.assertNotEqual(found[0], 1)
        taken = self.asked(first, request("GET", "/subjects"))[1]
        if "lost" in taken:
            self.assertNotEqual(self.asked(first, request("GET", "/subjects/lost/versions/1"))[1]["id"], found[0])

    def test_no_leader(self) -> None:
        """While no broker leads the topic, requests fail with that error after their timeout."""
        self.asked(0, registration("s", ORDER))
        first = self.leader()
        survivor = next(each for each in self.cluster.alive if each != first)
        for each in [each for each in self.cluster.alive if each != survivor]:
            self.cluster.kill(each)
        self.cluster.settle(5)
        status, found = self.asked(survivor, registration("s", GIFT), 40)
        self.assertEqual(status, 500)
        self.assertIn(found["error_code"], (50001, 50002, 50003, 50004))
