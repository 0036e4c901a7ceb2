"""``logbus audit`` against a real broker."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.audit_events import MonitoringEvent, encode_event
from logbus.testing import Broker
from tests.cli.test_commands import Result, run

WINDOW = 600_000
FIRST = 1_700_000_000_000 // WINDOW * WINDOW


def event(role: str, number: int, **fields: Any) -> bytes:
    """What somebody counted of the topic orders."""
    common = {"application": "shop", "host": "h", "window_start": FIRST, "window_ms": WINDOW}
    fields = {"id": f"{role}{number}{fields}", "counts": {"orders": number}, **common, **fields}
    return encode_event(MonitoringEvent(role=role, **fields)) + b"\n"


class AuditTests(SynchronousTestCase):
    broker: ClassVar[Broker]

    @classmethod
    def setUpClass(cls) -> None:
        cls.broker = Broker().start()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.broker.close()

    def audit(self, topic: str, *arguments: str) -> Result:
        return run("audit", "--topic", topic, "--bootstrap", self.broker.bootstrap, *arguments)

    def publish(self, topic: str, *lines: bytes) -> None:
        at = ("--bootstrap", self.broker.bootstrap)
        self.assertEqual(run("topics", "create", topic, "--partitions", "2", *at).status, 0)
        self.assertEqual(run("produce", topic, *at, stdin=b"".join(lines)).status, 0)

    def test_complete(self) -> None:
        """
        As many consumed as published: a table that says so, and status 0. An event that is there twice counts once.
        """
        consumed = event("consumer", 5, application="loader")
        self.publish("complete", event("producer", 2), event("producer", 3), consumed, consumed)
        result = self.audit("complete")
        self.assertEqual((result.status, result.err), (0, ""))
        self.assertEqual(
            [line.split() for line in result.out.splitlines()],
            [
                ["topic", "window", "application", "role", "published", "counted", "missing", "failed", "verdict"],
                ["orders", "2023-11-14T22:10:00Z", "loader", "consumer", "5", "5", "0", "0", "complete"],
            ],
        )

    def test_loss(self) -> None:
        """
        Status 1 and a line that says how many; JSON for scripts; windows can be chosen.
        """
        later = {"window_start": FIRST + WINDOW}
        self.publish(
            "lossy",
            event("producer", 5),
            event("producer", 4, **later),
            event("consumer", 5, application="loader"),
            event("consumer", 1, application="loader", **later),
        )
        result = self.audit("lossy", "--json")
        self.assertEqual((result.status, result.err), (1, "logbus: 3 records are missing, of orders\n"))
        self.assertEqual([each["verdict"] for each in json.loads(result.out)], ["complete", "missing"])
        self.assertEqual([each["missing"] for each in json.loads(result.out)], [0, 3])
        self.assertEqual(self.audit("lossy", "--until", str(FIRST + WINDOW)).status, 0)
        self.assertEqual(self.audit("lossy", "--since", str(FIRST + 1)).status, 1)
        young = self.audit("lossy", "--grace", "1e12")
        self.assertEqual((young.status, young.out.count("open")), (0, 2))

    def test_an_application_that_says_nothing(self) -> None:
        """
        It is missed if it is expected.
        """
        self.publish("silent", event("producer", 5))
        self.assertEqual((self.audit("silent").status, self.audit("silent").out), (0, ""))
        self.assertEqual(self.audit("silent", "--expect", "loader=orders").status, 1)
        self.assertEqual(self.audit("silent", "--expect", "loader").status, 2)

    def test_what_is_no_event_is_left_out(self) -> None:
        """
        With a line that says where it is; the others are compared all the same.
        """
        self.publish("mixed", b"hello\n", event("producer", 5), event("consumer", 5, application="loader"))
        result = self.audit("mixed")
        self.assertEqual(result.status, 0)
        self.assertIn("no monitoring event (1 of the records); the first: mixed-", result.err)
        self.assertIn("complete", result.out)

    def test_windows_that_do_not_fit(self) -> None:
        """
        They cannot be compared, and that is said.
        """
        odd = event("consumer", 5, application="loader", window_ms=7000, window_start=7000)
        self.publish("odd", event("producer", 5), odd)
        result = self.audit("odd")
        self.assertEqual(result.status, 1)
        self.assertIn("windows of 7000 ms do not fit into those of 600000 ms", result.err)

    def test_without_the_topic(self) -> None:
        """
        One line, and status 1.
        """
        result = self.audit("nowhere")
        self.assertEqual((result.status, result.err), (1, "logbus: there is no topic 'nowhere'\n"))
