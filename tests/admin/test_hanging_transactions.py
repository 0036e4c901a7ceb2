"""Tests of transactions that hang: of the search, the HTTP API and the console's pages."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from logbus.errors import ErrorCode
from tests.admin.broker_kit import HttpBrokerCase
from tests.admin.harness import Answered
from tests.console.kit import SAME_ORIGIN, seen
from tests.handlers.kit import a_batch, produce_request
from tests.handlers.transaction_kit import OffsetProducer

HANGING, NOBODY = "/api/v1/hanging-transactions?idle_ms=0", 4711


class HangingTransactionTests(HttpBrokerCase):
    """A broker that accepts records of transactions which no coordinator knows."""

    config = {
        "transaction.state.log.num.partitions": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.partition.verification.enable": "false",
        "transaction.max.timeout.ms": "60000",
    }

    def write(self, producer_id: int, epoch: int, name: str, version: int = 11) -> None:
        batch = a_batch(base_sequence=0, transactional=True, producer_id=producer_id, producer_epoch=epoch)
        answer = self.client.ask(produce_request(batch, transactional_id=name), version)
        self.assertEqual(answer.responses[0].partition_responses[0].error_code, 0)

    def abort(self, producer_id: int, start_offset: int, partition: int = 0) -> Answered:
        target = f"/api/v1/topics/t/partitions/{partition}/abort-transaction"
        return self.http.ask("POST", target, {"producer_id": producer_id, "start_offset": start_offset})

    def hanging(self) -> list[dict[str, Any]]:
        self.server.reactor.advance(1)
        found: list[dict[str, Any]] = self.http.get(HANGING)["items"]
        return found

    def test_hangs(self) -> None:
        """It is found, and aborted; readers of committed records go on."""
        self.write(NOBODY, 2, "nobody")
        (found,) = self.hanging()
        self.assertEqual(
            (found["id"], found["producer_id"], found["producer_epoch"], found["start_offset"]), ("t-0", NOBODY, 2, 0)
        )
        self.assertEqual(self.http.get("/api/v1/hanging-transactions")["items"], [], "not yet for long")
        self.server.reactor.advance(6 * 60 + 1)
        self.assertEqual(len(self.http.get("/api/v1/hanging-transactions")["items"]), 1)
        self.assertEqual(self.abort(NOBODY, 0).status, 204)
        self.assertEqual(self.hanging(), [])
        page = self.http.get("/api/v1/topics/t/partitions/0/records?isolation=read_committed")
        self.assertEqual(page["last_stable_offset"], 2)

    def test_has_coordinator(self) -> None:
        """One that its coordinator will end is none, and not aborted here."""
        producer = OffsetProducer(self.client).find()
        self.write(producer.producer_id, producer.epoch, "x", 12)
        self.client.produce(a_batch(b"later"))
        self.assertEqual(self.hanging(), [])
        answered = self.abort(producer.producer_id, 0)
        self.assertEqual(answered.status, 403, answered.body)
        self.assertIn("its coordinator ends it", answered.json["detail"])

    def test_other_than_said(self) -> None:
        """What has ended meanwhile, or was never there, is a conflict; a wrong partition is not found."""
        self.write(NOBODY, 2, "nobody")
        for producer_id, offset in ((NOBODY, 1), (NOBODY + 1, 0)):
            answered = self.abort(producer_id, offset)
            self.assertEqual(answered.status, 409)
            self.assertIn(f"producer {producer_id} begins at offset {offset} of t-0", answered.json["detail"])
        self.assertEqual(self.abort(NOBODY, 0, 99).json["error"], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name)

    def test_console(self) -> None:
        """The page has them first; to abort one is asked for once, with the command beside it."""
        self.write(NOBODY, 2, "nobody")
        self.server.reactor.advance(6 * 60 + 1)
        page = seen(self.http.ask("GET", "/console/transactions"))
        self.assertIn("Hanging transactions", page.text)
        (path,) = [link for link in page.links if link.endswith("/abort")]
        asked = seen(self.http.ask("GET", path))
        self.assertIn("logbus transactions abort --topic t --partition 0 --start-offset 0", asked.text)
        form = {found["name"] or "": found["value"] or "" for found in asked.having("input", type="hidden")}
        done = self.http.ask("POST", path, urlencode(form).encode(), SAME_ORIGIN)
        self.assertEqual((done.status, done.headers["Location"]), (303, "/console/transactions?done=aborted"))
        self.assertNotIn("Hanging", seen(self.http.ask("GET", "/console/transactions")).text)
        self.assertEqual(self.http.ask("GET", path.replace("4711", "x")).status, 400)
