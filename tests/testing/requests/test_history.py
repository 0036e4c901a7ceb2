"""The history of requests: what a test asks of it."""

from __future__ import annotations

import threading
from typing import Any
from unittest import TestCase, mock

from logbus.errors import ErrorCode
from logbus.testing.requests import RequestHistory, recorded, wanted
from logbus.testing.requests.apis import WrongRequest
from logbus.testing.requests.history import KEPT
from logbus.testing.requests.recorded import decoded

PRODUCE, HEARTBEAT, COMMIT = 0, 12, 8


class HistoryTests(TestCase):
    def setUp(self) -> None:
        self.times = iter(range(100_000))
        self.history = RequestHistory(lambda: next(self.times))

    def add(self, key: int, topic: str = "", *codes: int, client: str = "c") -> None:
        subjects = ((topic, 0),) if topic else ()
        self.history.answered(self.history.add(key, 9, client, 1, subjects), codes)

    def test_find(self) -> None:
        """By API, client, topic, partition and error."""
        self.add(PRODUCE, "orders")
        self.add(PRODUCE, "orders", ErrorCode.NOT_ENOUGH_REPLICAS)
        self.add(PRODUCE, "bills", client="d")
        self.add(HEARTBEAT)
        self.history.add(PRODUCE, 9, "c", 1, (("orders", 0),))

        def numbers(api: str = "*", **meant: object) -> list[int]:
            return [each.number for each in self.history.find(api, **meant)]  # type: ignore[arg-type]

        self.assertEqual(numbers(), [1, 2, 3, 4, 5])
        self.assertEqual(numbers("Produce", topic="ord*"), [1, 2, 5])
        self.assertEqual(numbers("Produce", topic="orders", partition=1), [])
        self.assertEqual(numbers(client_id="d"), [3])
        self.assertEqual(numbers(error="NOT_ENOUGH_REPLICAS"), [2])
        self.assertEqual(numbers("Produce", error="NONE"), [1, 3])
        self.assertEqual(len(self.history), 5)

    def test_values(self) -> None:
        """What is known of a request."""
        self.add(PRODUCE, "orders", 19, 19)
        [found] = self.history
        self.assertEqual((found.api, found.topics, found.version, found.seconds), ("Produce", ("orders",), 9, 1))
        self.assertEqual(found.errors, ("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS"))
        self.assertEqual(found.as_json()["partitions"], [{"topic": "orders", "partition": 0}])
        self.assertEqual(str(found), "1: c#1 Produce orders-0: NOT_ENOUGH_REPLICAS in 1000.0 ms")

    def test_two_threads_ask(self) -> None:
        """For the errors of an answer at the same time: both find them."""
        request = self.history.add(HEARTBEAT, 0, "c", 1)
        self.history.answered(request, body=ErrorCode.REBALANCE_IN_PROGRESS.to_bytes(2, "big"))
        meanwhile: list[tuple[str, ...]] = []

        def read(*body: Any) -> Any:
            if not meanwhile:
                meanwhile.append(())
                thread = threading.Thread(target=lambda: meanwhile.append(request.errors))
                thread.start()
                thread.join()
            return decoded(*body)

        with mock.patch.object(recorded, "decoded", read):
            self.assertEqual(request.errors, ("REBALANCE_IN_PROGRESS",))
        self.assertEqual(meanwhile, [(), ("REBALANCE_IN_PROGRESS",)])

    def test_count(self) -> None:
        """A wrong count shows the requests."""
        self.add(PRODUCE, "orders")
        self.assertEqual(len(self.history.assert_count("Produce", 1, topic="orders")), 1)
        with self.assertRaisesRegex(AssertionError, r"(?s)expected 2 Produce \(topic=orders\), there are 1; .*1: c#1"):
            self.history.assert_count("Produce", 2, topic="orders")

    def test_order(self) -> None:
        """The first of each counts; marks are what the application did."""
        self.history.mark("processed 1")
        self.add(COMMIT, "orders")
        self.history.mark("processed 2")
        self.history.assert_order(self.history.marked("processed *"), "OffsetCommit", self.history.marked("*2"))
        with self.assertRaisesRegex(AssertionError, "mark 'processed 1' came first as 1, before 2: c#1 OffsetCommit"):
            self.history.assert_order("OffsetCommit", self.history.marked("processed 1"))
        with self.assertRaisesRegex(AssertionError, "there is no Heartbeat; the requests were"):
            self.history.assert_order("OffsetCommit", "Heartbeat")
        self.assertEqual(len(self.history.find("*")), 1)

    def test_wait(self) -> None:
        """Until a request is there; with an error, until it was answered."""
        thread = threading.Thread(target=self.add, args=(PRODUCE, "orders", 19))
        thread.start()
        self.assertEqual(len(self.history.wait("Produce", 1, 60, error="NOT_ENOUGH_REPLICAS")), 1)
        thread.join()
        with self.assertRaisesRegex(AssertionError, r"expected 1 Heartbeat within 0.01 s, there are 0"):
            self.history.wait("Heartbeat", timeout=0.01)

    def test_bound(self) -> None:
        """Old requests are forgotten."""
        for _ in range(KEPT + 2):
            self.add(HEARTBEAT)
        self.assertEqual((len(self.history), self.history.forgotten), (KEPT, 2))
        with self.assertRaisesRegex(AssertionError, r"\.\.\. 9972 before"):
            self.history.assert_count("Produce", 1)
        self.history.clear()
        self.assertEqual((len(self.history), self.history.forgotten), (0, 0))

    def test_wrong_values(self) -> None:
        """One line says what would be right."""
        with self.assertRaisesRegex(WrongRequest, "there is no API 'Prodce'"):
            self.history.find("Prodce")
        with self.assertRaisesRegex(WrongRequest, "Kafka has no error 'OOPS'"):
            wanted("Produce", error="OOPS")
        with self.assertRaisesRegex(WrongRequest, "mark: '' is no text"):
            self.history.mark("")
