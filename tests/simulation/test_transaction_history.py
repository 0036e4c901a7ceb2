"""The checks of transactions find every anomaly, and nothing else."""

from __future__ import annotations

from math import inf
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.records.batch import ControlType, Marker, Record, encode_batch, encode_marker_batch
from logbus.testing.simulation.checks.history import FAIL, INFO, OK, Poll, Send
from logbus.testing.simulation.checks.read_committed import committed_records
from logbus.testing.simulation.checks.transaction_history import (
    OffsetRead,
    ProducerSession,
    Transaction,
    TransactionHistory,
    Write,
    exactly_once,
)


def poll(*records: tuple[int, int], partition: int = 0, at: float = 9.0, consumer: str = "c") -> Poll:
    return Poll(consumer, partition, 0, records, at)


class LedgerTests(SynchronousTestCase):
    """Each anomaly by itself, made by hand."""

    def setUp(self) -> None:
        self.ledger = TransactionHistory()
        self.session = self.open_session()

    def open_session(
        self, transactional_id: str = "x", at: float = 0.0, answered: float | None = None
    ) -> ProducerSession:
        session = self.ledger.session(transactional_id, at)
        session.answered = at + 0.1 if answered is None else answered
        return session

    def transact(self, *writes: tuple[int, int], outcome: str = OK, at: float = 1.0, **given: Any) -> Transaction:
        """Values, each with its partition; acknowledged at once, and the commit is asked for a second later."""
        transaction = self.ledger.begin(given.pop("session", self.session), at)
        for value, partition in writes:
            transaction.writes.append(Write(partition, (value,), at, at + 0.1, -1))
        transaction.outcome = outcome
        transaction.asked = given.pop("asked", at + 1)
        transaction.offsets = given.pop("offsets", False)
        return transaction

    def assertKinds(self, expected: list[str], *polls: Poll, **given: Any) -> None:
        found = self.ledger.check(list(polls), **given)
        self.assertEqual(sorted(each.kind for each in found), sorted(expected), [str(each) for each in found])

    def test_correct_history(self) -> None:
        """Transactions that were committed, aborted, and two whose outcome nobody knows."""
        self.transact((1, 0), (2, 1), offsets=True)
        self.transact((3, 0), (4, 1), outcome=FAIL, at=3, asked=inf, offsets=True)
        self.transact((5, 0), (6, 1), outcome=INFO, at=5, offsets=True)
        self.transact((7, 0), (8, 1), outcome=INFO, at=7, offsets=True)
        self.ledger.offset_reads = [OffsetRead("x", -1, 1.0), OffsetRead("x", 1, 2.5), OffsetRead("x", 3, 8.0)]
        self.assertKinds([], poll((0, 1), (4, 5)), poll((0, 2), (4, 6), partition=1), offsets={"x": 3})
        self.assertEqual(self.ledger.committed, 1)

    def test_aborted_read(self) -> None:
        """What was aborted is seen."""
        self.transact((1, 0), outcome=FAIL, asked=inf)
        self.assertKinds(["aborted-read"], poll((0, 1)))

    def test_precommitted_read(self) -> None:
        """What is committed in the end is seen before anybody asked for it."""
        self.transact((1, 0), at=5)
        self.assertKinds(["precommitted-read"], poll((0, 1), at=5.5), poll((0, 1), consumer="d"))

    def test_torn(self) -> None:
        """A part of a transaction is there, and a part is not; readers of the end decide."""
        self.transact((1, 0), (2, 1), outcome=INFO)
        self.assertKinds(["torn-transaction"], poll((0, 1)))
        self.assertKinds([], poll((0, 1)), finished=False)
        self.assertKinds([], poll((0, 1)), readers=frozenset("r"))

    def test_lost(self) -> None:
        """What was committed is not there."""
        self.transact((1, 0), (2, 1))
        self.assertKinds(["unseen"], poll((0, 1)))

    def test_order(self) -> None:
        """A later transaction of a producer lies before an earlier one; another's may."""
        self.transact((1, 0), at=1)
        other = self.open_session("y")
        self.transact((2, 0), at=2, session=other)
        self.transact((3, 0), at=3)
        self.assertKinds([], poll((0, 2), (1, 1), (2, 3)))
        self.assertKinds(["nonmonotonic-send"], poll((0, 3), (1, 1), (2, 2)))

    def test_records_without_transactions(self) -> None:
        """What is written without transactions is asked after, too."""
        self.transact((1, 0))
        others = [Send("p", 0, (2,), OK, 1, 0.0, 0.1)]
        self.assertKinds([], poll((0, 1), (1, 2)), others=others)
        self.assertKinds(["unseen"], poll((0, 1)), others=others)

    def test_zombies(self) -> None:
        """A producer is granted something that it asked for after its successor had begun."""
        self.open_session(at=3.0)
        self.transact((1, 0), at=2.0, asked=2.5)
        self.assertKinds([], poll((0, 1)))
        self.transact((2, 0), at=2.9, asked=3.5)
        self.assertKinds(["zombie-commit"], poll((0, 1), (1, 2)))
        self.transact((3, 0), at=3.5, asked=inf, outcome=FAIL)
        self.assertKinds(["zombie-commit", "zombie-write"], poll((0, 1), (1, 2)))

    def test_concurrent_producers_have_no_order(self) -> None:
        """Of two that began at the same time nobody knows who was first; one that was not answered fences nobody."""
        self.open_session(at=0.05)
        self.open_session(at=0.5, answered=inf)
        self.transact((1, 0), at=2)
        self.assertKinds([], poll((0, 1)))

    def test_anomalies_of_read_offsets(self) -> None:
        """Aborted, too early, another's, or one that goes back."""
        self.transact(offsets=True, at=1)
        self.transact(offsets=True, at=3, outcome=FAIL, asked=inf)
        self.transact(offsets=True, at=5)
        cases = {
            "aborted-offset": [(2, 6.0)],
            "precommitted-offset": [(3, 5.5)],
            "never-sent": [(4, 6.0)],
            "offset-back": [(3, 6.5), (1, 7.0)],
        }
        for kind, reads in cases.items():
            self.ledger.offset_reads = [OffsetRead("x", number, time) for number, time in reads]
            self.assertKinds([kind])

    def test_anomalies_of_final_offsets(self) -> None:
        """In the end the offset is that of the last transaction that is there."""
        self.transact((1, 0), offsets=True, at=1)
        self.transact((2, 0), offsets=True, at=3, outcome=INFO)
        self.transact(offsets=True, at=5, outcome=INFO)
        both, one = poll((0, 1), (1, 2)), poll((0, 1))
        for number, polls, expected in (
            (2, both, []),
            (3, both, []),
            (1, one, []),
            (1, both, ["torn-offset"]),
            (2, one, ["aborted-offset"]),
            (-1, one, ["torn-offset"]),
        ):
            self.assertKinds(expected, polls, offsets={"x": number})

    def test_exactly_once(self) -> None:
        """A stage's outputs are its inputs, in order."""
        cases: dict[tuple[int, ...], list[str]] = {
            (1, 2, 3): [],
            (1, 3): ["not-done"],
            (1, 2, 2, 3): ["done-twice"],
            (1, 3, 2): ["out-of-order"],
            (1, 2, 3, 9): ["never-sent"],
        }
        for outputs, kinds in cases.items():
            self.assertEqual([each.kind for each in exactly_once([1, 2, 3], outputs, 0)], kinds)


class IsolationTests(SynchronousTestCase):
    """What is left of an answer when aborted transactions are left out."""

    def setUp(self) -> None:
        self.offset = 0
        self.data = b""

    def write(self, producer: int, *values: bytes, transactional: bool = True) -> int:
        """A batch; its offset."""
        at = self.offset
        records = [Record(0, 0, None, value) for value in values]
        self.data += encode_batch(
            records,
            base_offset=at,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
        )
        self.offset += len(values)
        return at

    def mark(self, producer: int, type: ControlType) -> None:
        self.data += encode_marker_batch(
            Marker(type, 0), producer_id=producer, producer_epoch=0, timestamp=0, base_offset=self.offset
        )
        self.offset += 1

    def left(self, *aborted: tuple[int, int]) -> list[bytes | None]:
        return [record.value for record in committed_records(self.data, aborted).records]

    def test_two_producers(self) -> None:
        """One aborts, and commits the next; the other's records lie between."""
        first = self.write(1, b"a", b"b")
        self.write(2, b"c")
        self.write(1, b"n", transactional=False)
        self.mark(1, ControlType.ABORT)
        self.write(1, b"d")
        self.mark(2, ControlType.COMMIT)
        self.mark(1, ControlType.COMMIT)
        self.assertEqual(self.left((1, first)), [b"c", b"n", b"d"])
        self.assertEqual(self.left(), [b"a", b"b", b"c", b"n", b"d"])
        seen = committed_records(self.data, [(1, first)])
        self.assertEqual((seen.next_offset, seen.hidden), (self.offset, 2))

    def test_transaction_began_before_the_response(self) -> None:
        """The first offset of what was aborted may lie before the answer."""
        self.offset = 10
        self.write(1, b"a")
        self.mark(1, ControlType.ABORT)
        self.write(1, b"b")
        self.assertEqual(self.left((1, 3)), [b"b"])

    def test_transaction_begins_inside_the_response(self) -> None:
        """What its producer committed before is shown."""
        self.write(1, b"a")
        self.mark(1, ControlType.COMMIT)
        first = self.write(1, b"b")
        self.mark(1, ControlType.ABORT)
        self.assertEqual(self.left((1, first)), [b"a"])

    def test_empty_response(self) -> None:
        """An empty answer goes nowhere."""
        self.assertIsNone(committed_records(b"", []).next_offset)
