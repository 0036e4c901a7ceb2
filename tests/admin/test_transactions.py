"""Tests of the views and metrics of transactions."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.json_schema import schema_errors
from logbus.config import keys
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from tests.admin.broker_kit import HttpBrokerCase
from tests.admin.harness import NOW, Answered, World
from tests.handlers.kit import a_batch, produce_request
from tests.handlers.transaction_kit import OffsetProducer, transaction

NOW_MS = int(NOW * 1000)
LONGEST_MS = 900_000
"""The default of transaction.max.timeout.ms."""


class TransactionViewTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()

    def ask(self, target: str, status: int = 200) -> Any:
        answered: Answered = self.world.ask("GET", target)
        self.assertEqual(answered.status, status, answered.body)
        if status == 200:
            route = self.world.site.router.find(target.partition("?")[0])[0]["GET"]
            assert route.answer is not None
            self.assertEqual(list(schema_errors(route.answer, answered.json)), [])
        return answered.json

    def test_transactional_ids(self) -> None:
        """
        Each with its state, its producer, and how long its transaction has been under way.
        """
        begun = NOW_MS - 1500
        parts = frozenset({TopicPartition("t", 1), TopicPartition("t", 0)})
        self.world.transactions.add(transaction("b", TransactionState.ONGOING, started_ms=begun, partitions=parts))
        self.world.transactions.add(transaction("a", TransactionState.COMPLETE_ABORT, started_ms=begun))
        told = self.ask("/api/v1/transactions")
        self.assertEqual((told["next"], told["loading"]), (None, False))
        first, second = told["items"]
        self.assertEqual((first["id"], first["state"], first["started_at"]), ("a", "CompleteAbort", None))
        self.assertEqual(
            second,
            {
                "id": "b",
                "state": "Ongoing",
                "producer_id": 7,
                "producer_epoch": 3,
                "timeout_ms": 60_000,
                "started_at": begun,
                "duration_ms": 1500,
                "partitions": 2,
            },
        )

    def test_pages(self) -> None:
        """
        The pages together have all ids in order, each once, and tell that others are still being loaded.
        """
        names = sorted(["b", "a/b", "ü", "a b", "%2F"])
        for name in names:
            self.world.transactions.add(transaction(name))
        self.world.transactions.loading = True
        found: list[str] = []
        target = "/api/v1/transactions?limit=2"
        for _ in range(3):
            page = self.ask(target)
            self.assertTrue(page["loading"])
            found += [each["id"] for each in page["items"]]
            target = f"/api/v1/transactions?limit=2&after={quote(page['next'] or '', safe='')}"
        self.assertIsNone(page["next"])
        self.assertEqual(found, names)

    def test_one_transaction(self) -> None:
        """Its partitions are listed, too, in order."""
        parts = frozenset({TopicPartition("u", 0), TopicPartition("t", 10), TopicPartition("t", 9)})
        self.world.transactions.add(transaction("a", TransactionState.PREPARE_COMMIT, started_ms=5, partitions=parts))
        told = self.ask("/api/v1/transactions/a")
        self.assertEqual(
            [(each["topic"], each["partition"]) for each in told["partitions"]], [("t", 9), ("t", 10), ("u", 0)]
        )
        self.assertEqual((told["state"], told["started_at"]), ("PrepareCommit", 5))

    @given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
    def test_any_name(self, name: str) -> None:
        """
        A transactional id may be any text: percent-encoded, it is found.
        """
        self.world.transactions.known.clear()
        self.world.transactions.add(transaction(name))
        self.assertEqual(self.ask(f"/api/v1/transactions/{quote(name, safe='')}")["id"], name)

    def test_missing_ids(self) -> None:
        """
        An unknown id, or one of another coordinator, is not found; one that is being loaded gives a retriable error.
        """
        self.assertIn("no transactional id 'x'", self.ask("/api/v1/transactions/x", 404)["detail"])
        self.world.transactions.problem = ApiError(ErrorCode.NOT_COORDINATOR)
        self.assertIn("no transactional id 'x'", self.ask("/api/v1/transactions/x", 404)["detail"])
        self.world.transactions.problem = ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.assertTrue(self.ask("/api/v1/transactions/x", 503)["retriable"])


class AbortTests(HttpBrokerCase):
    """Transactions that an operator ends."""

    config = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}

    def test_abort(self) -> None:
        """A transaction is aborted, and its producer fenced; the id must be given again."""
        producer = OffsetProducer(self.client).find()
        ids = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        batch = a_batch(base_sequence=0, transactional=True, **ids)
        answer = self.client.ask(produce_request(batch, transactional_id="x"), 12)
        self.assertEqual(answer.responses[0].partition_responses[0].error_code, 0)
        self.assertEqual(self.http.get("/api/v1/transactions/x")["state"], "Ongoing")
        target = "/api/v1/transactions/x/abort"
        self.assertEqual(self.http.ask("POST", target, {"confirm": "y"}).status, 400)
        self.assertEqual(self.http.ask("POST", target, {"confirm": "x"}).status, 204)
        self.assertIn(self.http.get("/api/v1/transactions/x")["state"], ("Empty", "CompleteAbort"))
        page = self.http.get("/api/v1/topics/t/partitions/0/records?isolation=read_committed")
        self.assertEqual((page["items"], page["last_stable_offset"], page["next_offset"]), ([], 2, 2))
        self.assertEqual(producer.end(), ErrorCode.PRODUCER_FENCED)

    def test_abort_of_what_may_take_too_long(self) -> None:
        """A transaction is aborted whose time-out is more than is allowed since the broker was started again."""
        producer = OffsetProducer(self.client).find()
        ids = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        batch = a_batch(base_sequence=0, transactional=True, **ids)
        self.client.ask(produce_request(batch, transactional_id="x"), 12)
        config = self.server.broker.config
        self.patch(config, "_values", {**config._values, keys.TRANSACTION_MAX_TIMEOUT_MS: 30_000})
        answered = self.http.ask("POST", "/api/v1/transactions/x/abort", {"confirm": "x"})
        self.assertEqual(answered.status, 204, answered.body)
        self.assertIn(self.http.get("/api/v1/transactions/x")["state"], ("Empty", "CompleteAbort"))

    def test_no_such_id(self) -> None:
        """Nothing is made by an abort."""
        OffsetProducer(self.client).find()
        answered = self.http.ask("POST", "/api/v1/transactions/no/abort", {"confirm": "no"})
        self.assertEqual((answered.status, answered.json["error"]), (404, "TRANSACTIONAL_ID_NOT_FOUND"))
