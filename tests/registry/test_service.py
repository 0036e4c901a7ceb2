"""Tests of the registry of one broker: answers follow the log."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from attrs import evolve
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, ErrorCode
from logbus.ilogbus import Fetched, Leadership
from logbus.model import TopicPartition
from logbus.records.batch import Record, encode_batch
from logbus.registry.entries import decode
from logbus.registry.limits import RegistryLimits
from logbus.registry.model import TOPIC
from logbus.registry.requests import RegistryRequest, RegistryResponse
from logbus.registry.resource import RegistryPlugin
from logbus.registry.service import RegistryService
from logbus.registry.store import RegistryStore
from tests.handlers.kit import MemoryBroker
from tests.registry.kit import GIFT, ORDER, PRICE


def request(method: str, path: str, body: Any = None) -> RegistryRequest:
    """Something asked."""
    data = b"" if body is None else json.dumps(body).encode()
    return RegistryRequest(method, tuple(part for part in path.split("/") if part), {}, data)


def registration(subject: str, schema: Any) -> RegistryRequest:
    """A schema to register."""
    return request("POST", f"/subjects/{subject}/versions", {"schema": json.dumps(schema)})


class ServiceCase(SynchronousTestCase):
    """A broker with a registry."""

    def setUp(self) -> None:
        self.server = MemoryBroker().start()
        self.addCleanup(self.close)
        self.service = RegistryService(self.server.broker.plugin_services)

    def asked(self, what: RegistryRequest) -> tuple[int, Any]:
        """Return the answer, which must come within a second."""
        answers: list[RegistryResponse] = []
        self.service.answer(what).addCallback(answers.append)
        for _ in range(40):
            if answers:
                return answers[0].status, json.loads(answers[0].body)
            self.server.reactor.advance(0.025)
        raise AssertionError("no answer")

    def register(self, subject: str, schema: Any) -> Any:
        """Its id, or the code of the refusal."""
        _, found = self.asked(registration(subject, schema))
        return found.get("id", found.get("error_code"))

    def close(self) -> None:
        """The broker that runs by now."""
        self.server.close()

    def restart(self) -> None:
        """The broker begins anew with what its disk holds."""
        self.server.stop()
        self.server = MemoryBroker(disks=self.server.disks, ensemble=self.server.ensemble).start()
        self.service = RegistryService(self.server.broker.plugin_services)

    def log(self) -> list[Any]:
        """Return the records of the topic."""
        return [decode(each.key, each.value) for each in self.server.broker.plugin_services.read(TOPIC, 0, 0)]


class ServiceTests(ServiceCase):
    """Requests, and what becomes of the log."""

    def test_topic_is_created_on_demand(self) -> None:
        """Reads and refused requests do not create the topic."""
        self.assertEqual(self.asked(request("GET", "/subjects")), (200, []))
        self.assertEqual(self.register("s", {"type": "what"}), 42201)
        self.assertEqual(dict(self.server.broker.plugin_services.topics()), {})

    def test_the_topic(self) -> None:
        """It has one partition, and is compacted."""
        self.assertEqual(self.register("s", ORDER), 1)
        topic = self.server.broker.member.metadata.topics[TOPIC]
        self.assertEqual(len(topic.partitions), 1)
        self.assertEqual(topic.configs["cleanup.policy"], "compact")
        self.assertEqual(len(self.log()), 1)

    def test_restart(self) -> None:
        """A broker that begins anew knows what it knew, and goes on counting."""
        self.register("s", ORDER)
        self.register("s", GIFT)
        self.restart()
        self.assertEqual(self.asked(request("GET", "/subjects/s/versions")), (200, [1, 2]))
        self.assertEqual([self.register("s", GIFT), self.register("t", "int")], [2, 3])

    def test_deleting_more_than_a_batch_may_have(self) -> None:
        """A subject whose schemas together are larger than a batch may be is deleted all the same."""
        self.asked(request("PUT", "/config", {"compatibility": "NONE"}))
        for number in range(6):
            self.register("s", {**ORDER, "doc": f"{number}" * 200_000})
        self.assertEqual(self.asked(request("DELETE", "/subjects/s")), (200, [1, 2, 3, 4, 5, 6]))
        self.restart()
        self.assertEqual(self.asked(request("GET", "/subjects")), (200, []))

    def test_deleting_in_part(self) -> None:
        """If a later batch cannot be written, that is told; what was written is gone, and the rest can be deleted."""
        self.asked(request("PUT", "/config", {"compatibility": "NONE"}))
        for number in range(6):
            self.register("s", {**ORDER, "doc": f"{number}" * 200_000})
        services = self.server.broker.plugin_services
        append, calls = services.append, list[int]()

        def failing(topic: str, records: Any, *more: Any) -> Any:
            calls.append(len(records))
            is_first = len(calls) == 1
            return append(topic, records, *more) if is_first else fail(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))

        patched = self.patch(services, "append", failing)
        status, found = self.asked(request("DELETE", "/subjects/s"))
        patched.restore()
        self.assertEqual((status, len(calls)), (500, 2), found)
        self.assertIn("only a part was written", found["message"])
        self.assertEqual(self.asked(request("GET", "/subjects/s/versions")), (200, [3, 4, 5, 6]))
        self.assertEqual(self.asked(request("DELETE", "/subjects/s")), (200, [3, 4, 5, 6]))

    def test_at_once(self) -> None:
        """Whoever comes at the same time with the same schema gets the same id; others get others."""
        schemas = [ORDER, "int", ORDER, "int", "long", ORDER]
        answers: list[RegistryResponse] = []
        for index, schema in enumerate(schemas):
            self.service.answer(registration(f"s{index}", schema)).addCallback(answers.append)
        self.server.reactor.pump([0.025] * 80)
        ids = [json.loads(each.body)["id"] for each in answers]
        self.assertEqual(len(ids), len(schemas))
        self.assertEqual(sorted(ids), [1, 1, 1, 2, 2, 3])

    def test_records_of_other_writers(self) -> None:
        """Records of other writers are read: valid entries count, others are skipped."""
        self.register("s", ORDER)
        (key, value), *_ = [(each.key, each.value) for each in self.server.broker.plugin_services.read(TOPIC, 0, 0)]
        other = (key.replace(b'"s"', b'"o"'), value.replace(b'"id":1', b'"id":40').replace(b'"s"', b'"o"'))
        for record in ((b"hello", b"you"), other, (b"{}", None)):
            self.server.now(self.server.broker.plugin_services.append(TOPIC, [record]))
        self.assertEqual(self.asked(request("GET", "/subjects")), (200, ["o", "s"]))
        self.assertEqual(self.register("t", "int"), 41)

    def test_open_transaction(self) -> None:
        """Nothing is written while a transaction is open on the topic, since records behind it are unknown."""
        self.register("s", ORDER)
        batch = encode_batch(
            [Record(0, 0, b"{}", b"")], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
        )
        self.server.broker.replication.replicas.leader(TOPIC, 0).append(batch, 0)
        self.assertEqual(self.asked(request("GET", "/subjects")), (200, ["s"]))
        status, found = self.asked(request("PUT", "/config", {"compatibility": "NONE"}))
        self.assertEqual((status, found["error_code"]), (500, 50001))
        self.assertIn("transaction open", found["message"])

    def test_doubtful_write(self) -> None:
        """A write that failed may be in the log all the same: what is there is read before it is tried again."""
        self.register("s", ORDER)
        append = self.server.broker.plugin_services.append

        def failing(*given: Any) -> Deferred[Any]:
            append(*given)
            return fail(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full"))

        self.server.broker.plugin_services.append = failing  # type: ignore[assignment]
        self.assertEqual(self.register("s", GIFT), 2)
        self.assertEqual(len(self.log()), 2)
        status, found = self.asked(request("DELETE", "/subjects/s"))
        self.assertEqual((status, found["error_code"]), (500, 50001))
        self.assertIn("the disk is full", found["message"])
        self.server.broker.plugin_services.append = append  # type: ignore[method-assign]
        self.assertEqual(self.asked(request("GET", "/subjects")), (200, []))
        self.assertEqual(self.register("t", PRICE), 3)

    def test_deleted_topic(self) -> None:
        """Deleting the topic deletes the registry; the next schema is its first."""
        self.register("s", ORDER)
        self.register("s", GIFT)
        self.server.now(self.server.broker.control.topic_admin.delete_topics([TOPIC]))
        self.assertEqual(self.asked(request("GET", "/subjects")), (200, []))
        self.assertEqual(self.register("t", "int"), 1)
        self.assertEqual(self.asked(request("GET", "/subjects")), (200, ["t"]))

    def test_deleted_records(self) -> None:
        """Deleting records of the topic deletes only their contents."""
        self.register("s", ORDER)
        self.register("t", "int")
        logs = self.server.broker.replication.replicas.logs
        self.server.now(logs.delete_records(TopicPartition(TOPIC, 0), 1))
        self.restart()
        self.assertEqual(self.asked(request("GET", "/subjects")), (200, ["t"]))
        self.assertEqual(self.register("u", GIFT), 3)

    def test_too_many(self) -> None:
        """Requests that wait are bounded."""
        self.register("s", ORDER)
        self.service = RegistryService(self.server.broker.plugin_services, evolve(RegistryLimits(), requests=2))
        self.register("s", ORDER)
        append, held = self.server.broker.plugin_services.append, list[Deferred[Any]]()

        def holding(*given: Any) -> Deferred[Any]:
            held.append(Deferred())
            return held[-1]

        self.server.broker.plugin_services.append = holding  # type: ignore[assignment]
        waiting = [self.service.answer(registration("s", each)) for each in (GIFT, PRICE)]
        self.server.reactor.advance(0.1)
        self.assertEqual(self.asked(request("GET", "/subjects"))[0], 503)
        self.server.broker.plugin_services.append = append  # type: ignore[method-assign]
        late: list[RegistryResponse] = []
        for each in waiting:
            each.addCallback(late.append)
        self.server.reactor.pump([1.0] * 31)
        self.assertEqual([each.status for each in late], [500, 500])
        self.assertEqual({json.loads(each.body)["error_code"] for each in late}, {50002})
        # Nobody waits for the second any more: it is not begun.
        held[0].errback(ApiError(ErrorCode.KAFKA_STORAGE_ERROR))
        self.assertEqual(self.asked(request("GET", "/subjects/s/versions")), (200, [1]))

    def test_mistake(self) -> None:
        """A mistake of ours is an answer, and in the log."""
        self.server.broker.plugin_services.leadership = None  # type: ignore[assignment]
        status, found = self.asked(request("GET", "/subjects"))
        self.assertEqual((status, found["error_code"]), (500, 50001))
        self.assertEqual(len(self.flushLoggedErrors(TypeError)), 1)

    def test_cancelled_request(self) -> None:
        """A cancelled request leaves nothing behind."""
        self.register("s", ORDER)
        held: Deferred[Any] = Deferred()
        self.server.broker.plugin_services.append = lambda *given: held  # type: ignore[assignment]
        before = len(self.server.reactor.getDelayedCalls())
        waiting = self.service.answer(registration("s", GIFT))
        self.server.reactor.advance(0.1)
        waiting.addErrback(lambda _: None)
        waiting.cancel()
        self.assertEqual(len(self.server.reactor.getDelayedCalls()), before)


class LateBroker:
    """
    A broker on which what was appended is committed when that is waited for, or never.

    :ivar fails: whether an append is, as far as who appends can tell.
    """

    broker_id = 0
    cluster_id = "c"

    def __init__(self) -> None:
        self.reactor = Clock()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.committed = 0
        self.fails = False
        self.epoch = 1

    def leadership(self, topic: str, partition: int) -> Leadership:
        return Leadership(0, self.epoch, UUID(int=1))

    def settled(self, topic: str, partition: int) -> Deferred[tuple[int, int]]:
        self.committed = len(self.log)
        return succeed((0, self.committed))

    def fetch(self, topic: str, partition: int, offset: int) -> Fetched:
        there = [Record(number, 0, *self.log[number]) for number in range(offset, self.committed)]
        return Fetched(there, self.committed)

    def append(self, topic: str, records: Any, partition: int, acks: int) -> Deferred[tuple[int, int]]:
        base = len(self.log)
        self.log += records
        if self.fails:
            return fail(ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        self.committed = len(self.log)
        return succeed((0, base))


class DoubtTests(SynchronousTestCase):
    """Writes with an unknown outcome."""

    def test_committed_later(self) -> None:
        """A failed write may be committed later with its id: the next write waits for the outcome."""
        broker = LateBroker()
        store = RegistryStore(broker, RegistryLimits())  # type: ignore[arg-type]

        def register(subject: str, schema: Any) -> Any:
            answered = Deferred.fromCoroutine(store.perform(registration(subject, schema), 30.0))
            broker.reactor.pump([0.0] * 20)
            return json.loads(self.successResultOf(answered).body)["id"]

        self.assertEqual(register("s", ORDER), 1)
        broker.fails = True
        doubtful = Deferred.fromCoroutine(store.perform(registration("s", GIFT), 30.0))
        broker.reactor.pump([0.0] * 20)
        self.failureResultOf(doubtful, ApiError)
        broker.fails = False
        self.assertEqual(register("t", "int"), 3)

    def test_led_by_another_broker_meanwhile(self) -> None:
        """A write that was decided on before another broker led gives no schema the id of one that came there."""
        broker, elsewhere = LateBroker(), LateBroker()
        store = RegistryStore(broker, RegistryLimits())  # type: ignore[arg-type]
        other = RegistryStore(elsewhere, RegistryLimits())  # type: ignore[arg-type]
        deciding = Deferred.fromCoroutine(store.perform(registration("s", ORDER), 30.0))
        self.assertNoResult(deciding)
        registered = Deferred.fromCoroutine(other.perform(registration("t", "int"), 30.0))
        elsewhere.reactor.pump([0.0] * 20)
        self.successResultOf(registered)
        broker.log, broker.epoch = list(elsewhere.log), 3
        reading = Deferred.fromCoroutine(store.perform(request("GET", "/subjects"), 30.0))
        broker.reactor.pump([0.0] * 20)
        self.assertEqual(json.loads(self.successResultOf(reading).body), ["t"])
        refused = self.failureResultOf(deciding, ApiError).value
        self.assertIs(refused.code, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.assertEqual(broker.log, elsewhere.log)


class PluginTests(ServiceCase):
    """How it is mounted."""

    def test_two_listeners(self) -> None:
        """Two admin listeners of a broker share one registry; another broker has its own."""
        plugin = RegistryPlugin()
        first = plugin.resource(self.server.broker.plugin_services)
        self.assertIs(plugin.resource(self.server.broker.plugin_services), first)
        other = MemoryBroker().start()
        self.addCleanup(other.close)
        self.assertIsNot(plugin.resource(other.broker.plugin_services), first)
