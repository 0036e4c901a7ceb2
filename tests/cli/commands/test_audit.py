"""``logbus audit`` against a real broker."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.audit.event_decoder import encode_avro
from logbus.client.audit.monitoring_event import AVRO_SCHEMA, MonitoringEvent, encode_event
from logbus.client.schema.schema_registry import frame
from logbus.testing import Broker
from logbus.testing.held_ports import HeldPorts
from tests.cli.command_line import Result, run

WINDOW = 600_000
FIRST = 1_700_000_000_000 // WINDOW * WINDOW


def event(role: str, number: int, **fields: Any) -> bytes:
    """Return a monitoring event for the topic orders."""
    common = {"application": "shop", "host": "h", "window_start": FIRST, "window_ms": WINDOW}
    fields = {"id": f"{role}{number}{fields}", "counts": {"orders": number}, **common, **fields}
    return encode_event(MonitoringEvent(role=role, **fields)) + b"\n"


class _Answers(BaseHTTPRequestHandler):
    """Every schema is that of events."""

    def do_GET(self) -> None:
        body = json.dumps({"schema": json.dumps(AVRO_SCHEMA)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Not on standard error."""


@contextmanager
def registry_over_http() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class AuditTests(SynchronousTestCase):
    broker: ClassVar[Broker]

    @classmethod
    def setUpClass(cls) -> None:
        cls.broker = cls.enterClassContext(Broker())

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

    def test_avro(self) -> None:
        """
        Events in Avro count, too; framed ones with a registry, and without one it is said what to give.
        """
        events = [
            MonitoringEvent(f"{role}-1", "shop", "h", role, FIRST, WINDOW, {"orders": 6})
            for role in ("producer", "consumer")
        ]
        plain, framed = encode_avro(events[0]), frame(1, encode_avro(events[1]))
        self.assertNotIn(b"\n", plain + framed)
        self.publish("avro", plain + b"\n", framed + b"\n")
        result = self.audit("avro")
        self.assertEqual((result.status, result.out), (1, ""))
        self.assertIn("say where the registry is (--schema-registry)", result.err)
        with registry_over_http() as url:
            result = self.audit("avro", "--schema-registry", url)
        self.assertEqual((result.status, result.err), (0, ""))
        self.assertIn("6        6        0", result.out)

    def test_unreachable_registry(self) -> None:
        """The error is one line, and the status 1."""
        event = MonitoringEvent("a", "shop", "h", "producer", FIRST, WINDOW, {"orders": 5})
        self.publish("framed", frame(1, encode_avro(event)) + b"\n")
        held = HeldPorts()
        self.addCleanup(held.close)
        nowhere = f"http://127.0.0.1:{held.free('127.0.0.1')}"
        result = self.audit("framed", "--schema-registry", nowhere)
        self.assertEqual((result.status, result.out, result.err.count("\n")), (1, "", 1), result.err)
        self.assertIn(nowhere.removeprefix("http://"), result.err)

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

    def test_silent_application(self) -> None:
        """It is reported as missing if it is expected."""
        self.publish("silent", event("producer", 5))
        result = self.audit("silent")
        self.assertEqual((result.status, result.out), (0, ""))
        self.assertIn("nothing to compare: in that time no application reported", result.err)
        self.assertEqual(self.audit("silent", "--expect", "loader=orders").status, 1)
        self.assertEqual(self.audit("silent", "--expect", "loader").status, 2)

    def test_invalid_events_are_left_out(self) -> None:
        """A line tells where they are; the other events are compared."""
        self.publish("mixed", b"hello\n", event("producer", 5), event("consumer", 5, application="loader"))
        result = self.audit("mixed")
        self.assertEqual(result.status, 1)
        self.assertIn(
            "1 of the 3 records are no monitoring events (33.3%), more than max_unreadable_share 0", result.err
        )
        self.assertEqual(self.audit("mixed", "--max-unreadable-share", "0.33").status, 1)
        result = self.audit("mixed", "--max-unreadable-share", "0.34")
        self.assertEqual(result.status, 0)
        self.assertIn("ignored 1 records that are no monitoring events; the first: mixed-", result.err)
        self.assertIn("complete", result.out)

    def test_duplicates_fail_unless_their_share_is_allowed(self) -> None:
        """A consumer that counted more than was published is an error, as for 'logbus pipeline audit'."""
        self.publish("twice", event("producer", 95), event("consumer", 100, application="loader"))
        result = self.audit("twice")
        self.assertEqual(result.status, 1)
        self.assertIn("5 of the 100 counted records are there more than once (5.0%)", result.err)
        self.assertEqual(self.audit("twice", "--max-duplicate-share", "0.04").status, 1)
        self.assertEqual(self.audit("twice", "--max-duplicate-share", "0.05").status, 0)

    def test_what_cannot_be_judged_fails(self) -> None:
        """No events, none about an expected topic, and counts that nothing was published for."""
        self.publish("nothing")
        self.assertEqual(self.audit("nothing").err, "logbus: there are no monitoring events\n")
        self.publish("half", event("consumer", 5, application="loader"))
        result = self.audit("half", "--expect", "loader=payments")
        self.assertEqual(result.status, 1)
        self.assertIn("no monitoring event is about topic 'payments'", result.err)
        self.assertIn("5 records are perhaps missing or duplicated, of orders", result.err)

    def test_a_window_of_no_year(self) -> None:
        """
        A beginning that no calendar has is shown as its number.
        """
        late = {"window_start": 600_000 * 10**12}
        self.publish("late", event("producer", 5, **late), event("consumer", 5, application="loader", **late))
        result = self.audit("late", "--grace", "0")
        self.assertIn(f"{600_000 * 10**12} ms", result.out)

    def test_windows_of_different_lengths(self) -> None:
        """They cannot be compared, and the output says so."""
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
