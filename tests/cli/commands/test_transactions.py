"""Tests of ``logbus transactions``."""

from __future__ import annotations

import io
import json
import os
import socket
import struct
from typing import Any, ClassVar
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.app import run_app
from logbus.cli.commands import transactions
from logbus.cli.transaction_report import date
from logbus.client.admin.transaction_results import STATES
from logbus.records.batch import Record, encode_batch
from logbus.records.file_slice import joined
from logbus.testing import Broker
from logbus.wire.connection import ClientConnection
from logbus.wire.messages.groups import FindCoordinatorRequest
from logbus.wire.messages.partitions import NamedTopicPartitions
from logbus.wire.messages.records import PartitionProduceData, ProduceRequest, TopicProduceData
from logbus.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    InitProducerIdRequest,
)
from tests.cli.command_line import Result, run


class WrongUsageTests(SynchronousTestCase):
    def test_wrong_usage(self) -> None:
        """
        It ends with 2, and says what would be right.
        """
        where = ("--topic", "t", "--partition", "0")
        for part, *arguments in (
            ("ongoing", "list", "--state", "happy"),
            ("0<=x", "list", "--duration-filter", "-1"),
            ("x<=9223372036854775807", "list", "--producer-id", "9" * 20),
            ("name a transactional id", "describe"),
            ("it is empty; give", "describe", ""),
            ("at most 32767", "describe", "--transactional-id", "i" * 32768),
            ("not UTF-8", "force-terminate", "\udcff"),
            ("--partition", "describe-producers", "--topic", "t"),
            ("--broker-id or --topic", "find-hanging"),
            ("--partition needs --topic", "find-hanging", "--broker-id", "0", "--partition", "1"),
            ("--start-offset, or all of", "abort", *where),
            ("--producer-epoch is missing", "abort", *where, "--producer-id", "1", "--coordinator-epoch", "0"),
            ("leave out the producer", "abort", *where, "--producer-id", "1", "--start-offset", "0"),
            ("0<=x<=32767", "abort", *where, "--producer-id", "1", "--producer-epoch", "40000"),
        ):
            with mock.patch("sys.stdout", io.StringIO()) as out, mock.patch("sys.stderr", io.StringIO()) as err:
                status = run_app(["transactions", *arguments])
            self.assertEqual((status, out.getvalue()), (2, ""), arguments)
            self.assertIn(part, err.getvalue(), arguments)


class WordTests(SynchronousTestCase):
    def test_states(self) -> None:
        """The states that can be given are those that the client knows."""
        self.assertEqual(transactions._STATES, STATES)

    def test_dates(self) -> None:
        """
        In UTC; what is not known is left open, and what no calendar has is a number.
        """
        for at_ms, told in (
            (1_700_000_000_999, "2023-11-14T22:13:20Z"),
            (0, "1970-01-01T00:00:00Z"),
            (-1, None),
            (None, None),
            (2**62, str(2**62)),
        ):
            self.assertEqual(date(at_ms), told)


class Transactor:
    """A producer that begins transactions in t, and does not end them."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), 30)
        self._wire = ClientConnection("transactor")

    def close(self) -> None:
        self._socket.close()

    def ask(self, message: Any, version: int) -> Any:
        """Ask, and wait for the answer."""
        _, parts = self._wire.request(message, version)
        self._socket.sendall(joined(parts))
        (length,) = struct.unpack(">i", self._read(4))
        return self._wire.receive(self._read(length))[1]

    def _read(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            piece = self._socket.recv(count - len(found))
            assert piece, "the broker hung up"
            found += piece
        return found

    def begin(self, name: str, partition: int) -> None:
        """As a client would: with a coordinator that knows of it."""
        while True:
            self.ask(FindCoordinatorRequest(key=name, key_type=1), 3)
            begun = self.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 3)
            # The topic of transactions may just be coming into being.
            if begun.error_code not in (14, 15, 16):
                break
        assert not begun.error_code, begun
        added = self.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=begun.producer_id,
                v3_and_below_producer_epoch=begun.producer_epoch,
                v3_and_below_topics=[NamedTopicPartitions(name="t", partitions=[partition])],
            ),
            3,
        )
        assert not added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code, added
        self.write(name, begun.producer_id, begun.producer_epoch, partition)

    def write(self, name: str, producer_id: int, epoch: int, partition: int) -> int:
        """Write a record of a transaction, known to a coordinator or not; return its offset."""
        batch = encode_batch(
            [Record(0, 0, None, b"x")],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            transactional=True,
        )
        data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=partition, records=batch)])
        answer = self.ask(ProduceRequest(transactional_id=name, acks=-1, timeout_ms=10_000, topic_data=[data]), 9)
        (written,) = answer.responses[0].partition_responses
        assert not written.error_code, written
        offset: int = written.base_offset
        return offset


class TransactionCommandTests(SynchronousTestCase):
    """The broker has a topic t, and accepts records of transactions unknown to coordinators."""

    broker: ClassVar[Broker]

    @classmethod
    def setUpClass(cls) -> None:
        cls.broker = cls.enterClassContext(Broker(config={"transaction.partition.verification.enable": "false"}))
        environment = {**os.environ, "LOGBUS_BOOTSTRAP": cls.broker.bootstrap}
        assert run("topics", "create", "t", "-p", "8", env=environment).status == 0

    def setUp(self) -> None:
        self.producer = Transactor(self.broker.bootstrap)
        self.addCleanup(self.producer.close)

    def run_transactions(self, *arguments: str) -> Result:
        return run("transactions", *arguments, env={**os.environ, "LOGBUS_BOOTSTRAP": self.broker.bootstrap})

    def run_ok(self, *arguments: str) -> str:
        done = self.run_transactions(*arguments)
        self.assertEqual((done.status, done.err), (0, ""))
        return done.out

    def refused(self, *arguments: str) -> str:
        done = self.run_transactions(*arguments)
        self.assertEqual((done.status, done.out, done.err.count("\n")), (1, "", 1), done.err)
        return done.err

    def where(self, partition: int) -> tuple[str, ...]:
        return ("--topic", "t", "--partition", str(partition))

    def hanging(self, partition: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(
            self.run_ok("find-hanging", *self.where(partition), "--max-transaction-timeout", "0", "--json")
        )
        return found

    def test_transaction_lifecycle(self) -> None:
        """
        A transaction is listed and described, cannot be aborted in one partition, and is ended by its coordinator.
        """
        self.producer.begin("life", 1)
        self.assertRegex(self.run_ok("list", "--state", "ongoing"), r"\nlife +Ongoing +\d+ +0\n")
        (told,) = json.loads(self.run_ok("list", "--transactional-id-pattern", "l.fe", "--json"))
        self.assertEqual((told["transactional_id"], told["state"]), ("life", "Ongoing"))
        self.assertNotIn("life", self.run_ok("list", "--duration-filter", "60000"))
        self.assertNotIn("life", self.run_ok("list", "--producer-id", str(told["producer_id"] + 1)))
        self.assertRegex(self.run_ok("describe", "life"), r"\nlife +Ongoing .* t:1\n")
        (described,) = json.loads(self.run_ok("describe", "--transactional-id", "life", "--json"))
        self.assertEqual((described["timeout_ms"], described["partitions"]), (60_000, {"t": [1]}))
        self.assertGreaterEqual(described["duration_ms"], 0)
        self.assertEqual(self.hanging(1), [])
        error = self.refused("abort", *self.where(1), "--start-offset", "0")
        self.assertIn("transaction of life", error)
        self.assertIn("force-terminate", error)
        self.run_ok("force-terminate", "life")
        self.assertNotIn("life", self.run_ok("list", "--state", "ongoing"))
        (described,) = json.loads(self.run_ok("describe", "life", "--json"))
        self.assertEqual((described["started_ms"], described["duration_ms"], described["partitions"]), (None, None, {}))
        self.assertIn("none is open", self.refused("abort", *self.where(1), "--start-offset", "0"))

    def test_hanging_transaction(self) -> None:
        """It is found, and aborted by its first offset; a wrong offset is refused."""
        offset = self.producer.write("nobody", 4711, 2, 2)
        (found,) = self.hanging(2)
        self.assertEqual(
            (found["producer_id"], found["producer_epoch"], found["start_offset"], found["coordinator_epoch"]),
            (4711, 2, offset, None),
        )
        shown = self.run_ok("find-hanging", "--broker-id", "0", "--max-transaction-timeout", "0")
        self.assertRegex(shown, rf"\nt +2 +4711 +2 +- +{offset} ")
        self.assertIn("no transaction hangs", self.run_ok("find-hanging", "--topic", "t", "--partition", "7"))
        (told,) = json.loads(self.run_ok("describe-producers", *self.where(2), "--json"))
        self.assertEqual((told["start_offset"], told["last_sequence"]), (offset, 0))
        self.assertRegex(self.run_ok("describe-producers", *self.where(2)), rf"\n +4711 +2 +- +0 .* {offset}\n")
        error = self.refused("abort", *self.where(2), "--start-offset", str(offset + 1))
        self.assertIn(f"those that are open begin at {offset}", error)
        self.assertIn("producer 4711", self.run_ok("abort", *self.where(2), "--start-offset", str(offset)))
        self.assertEqual(self.hanging(2), [])
        (told,) = json.loads(self.run_ok("describe-producers", *self.where(2), "--json"))
        self.assertIsNone(told["start_offset"])

    def test_abort_by_producer(self) -> None:
        """For older brokers, which do not report start offsets, producer and epochs are given, and checked."""
        self.producer.write("nobody", 4712, 2, 3)
        producer = (*self.where(3), "--producer-id", "4712", "--coordinator-epoch", "-1", "--producer-epoch")
        self.assertIn("another epoch of producer 4712 than 1", self.refused("abort", *producer, "1"))
        self.run_ok("abort", *producer, "2")
        self.assertEqual(self.hanging(3), [])

    def test_refusals(self) -> None:
        """Each error is one line that names the transaction or partition."""
        for part, *arguments in (
            ("there is no transactional id 'x'", "describe", "x"),
            ("there is no transactional id 'x'", "force-terminate", "x"),
            ("there is no topic 'gone'", "describe-producers", "--topic", "gone", "--partition", "0"),
            ("'t' has no partition 8; it has 0 to 7", "describe-producers", *self.where(8)),
            ("there is no broker 7; there are 0", "describe-producers", *self.where(0), "--broker-id", "7"),
            ("there is no topic 'gone'", "find-hanging", "--topic", "gone"),
            ("'t' has no partition 8; it has 0 to 7", "find-hanging", *self.where(8)),
            ("there is no broker 7", "find-hanging", "--broker-id", "7"),
            ("there is no topic 'gone'", "abort", "--topic", "gone", "--partition", "0", "--start-offset", "0"),
            ("no open transaction of t-0 begins at offset 5", "abort", *self.where(0), "--start-offset", "5"),
            ("does not take '(' for an expression", "list", "--transactional-id-pattern", "("),
        ):
            self.assertIn(part, self.refused(*arguments), arguments)

    def test_strange_names(self) -> None:
        """
        A transactional id may be any text, and does not steer the terminal.
        """
        name = "a/b \x1b[2J\n%ü"
        self.producer.begin(name, 4)
        error = self.refused("abort", *self.where(4), "--start-offset", "0")
        for shown in (self.run_ok("list"), self.run_ok("describe", name), error):
            self.assertNotIn("\x1b", shown)
            self.assertIn('"a/b \\u001b[2J\\n%\\u00fc"', shown)
        self.run_ok("force-terminate", name)
