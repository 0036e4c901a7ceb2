"""Tests of the pages of a broker: its log directories, and what it logs."""

from __future__ import annotations

import re
import shlex
from urllib.parse import urlencode

from logbus.log_levels import process_levels
from tests.admin.broker_kit import HttpBrokerCase
from tests.admin.harness import Answered
from tests.cli.parsing import accepts
from tests.console.kit import SAME_ORIGIN, seen

LOGGERS = "/console/brokers/0/loggers"
SCRIPT = "<script>alert(1)</script>"


class BrokerPageTests(HttpBrokerCase):
    """A broker and its loggers."""

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(process_levels.configure, {})

    def post(self, **fields: str) -> Answered:
        return self.http.ask("POST", LOGGERS, urlencode(fields).encode(), SAME_ORIGIN)

    def text(self, path: str = LOGGERS) -> str:
        return seen(self.http.ask("GET", path)).text

    def test_log_directories(self) -> None:
        """With their state and space."""
        text = self.text("/console/brokers/0")
        self.assertRegex(text, r"Log directories Directory State Partitions Logs Free Disk /\S+ in use 2 0 B 1.0 TiB")

    def test_levels(self) -> None:
        """One is changed after a question with the command, and restored."""
        self.assertIn("root INFO", self.text())
        asked = seen(self.post(logger="logbus.storage", level="DEBUG")).text
        found = re.search(r"logbus configs set logger \S+ \S+", asked)
        assert found is not None, asked
        self.assertTrue(accepts(shlex.split(found[0])[1:]), found[0])
        self.assertEqual(process_levels.level("logbus.storage"), "INFO")
        sure = {"logger": "logbus.storage", "confirmed": "yes"}
        self.assertEqual(self.post(**sure, level="DEBUG").status, 303)
        self.assertIn("logbus.storage DEBUG changed", self.text())
        self.assertEqual(self.post(**sure, level="restore").status, 303)
        self.assertIn("logbus.storage INFO", self.text(f"{LOGGERS}?done=level-set"))

    def test_wrong(self) -> None:
        """What is wrong is told on the form, which keeps what was typed."""
        for fields, told in (
            ({}, "Give the name of a logger"),
            ({"logger": "root", "level": SCRIPT}, "Choose one of TRACE"),
            ({"logger": SCRIPT, "level": "INFO", "confirmed": "yes"}, "there is no logger"),
        ):
            answered = self.post(**fields)
            self.assertEqual(answered.status, 400, fields)
            self.assertIn(told, seen(answered).text)
            self.assertNotIn(SCRIPT.encode(), answered.body)
        self.assertEqual(self.http.ask("GET", "/console/brokers/7/loggers").status, 404)
