"""Tests of :mod:`logbus.admin.loggers`."""

from __future__ import annotations

from logbus.log_levels import process_levels
from tests.admin.broker_kit import HttpBrokerCase

LOGGERS = "/api/v1/loggers/0"


class LoggerTests(HttpBrokerCase):
    """What a broker logs."""

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(process_levels.configure, {})

    def test_changes(self) -> None:
        """Levels are shown, changed and restored."""
        found = {item["name"]: item["level"] for item in self.http.get(LOGGERS)["items"]}
        self.assertEqual((found["root"], found["logbus.storage"]), ("INFO", "INFO"))
        answered = self.http.ask("PATCH", LOGGERS, {"logbus.storage": "WARN", "logbus.net.protocol": "DEBUG"})
        self.assertEqual(answered.status, 200, answered.body)
        self.assertEqual(
            answered.json["items"],
            [
                {"name": "logbus.storage", "level": "WARN", "changed": True},
                {"name": "logbus.net.protocol", "level": "DEBUG", "changed": True},
            ],
        )
        self.assertEqual(process_levels.level("logbus.storage.log"), "WARN")
        self.assertIn("logbus.net.protocol", [item["name"] for item in self.http.get(LOGGERS)["items"]])
        answered = self.http.ask("PATCH", LOGGERS, {"logbus.storage": None})
        self.assertEqual(answered.json["items"], [{"name": "logbus.storage", "level": "INFO", "changed": False}])

    def test_what_is_wrong(self) -> None:
        """Errors name the logger, the level or the broker, and change nothing."""
        for target, body, status, told in (
            (LOGGERS, {"logbus.storage": "WARN", "no.such": "INFO"}, 400, "there is no logger 'no.such'"),
            (LOGGERS, {"logbus.storage": "LOUD"}, 400, "LOUD"),
            (LOGGERS, {"root": None}, 400, "root cannot be removed"),
            ("/api/v1/loggers/7", {}, 404, "7"),
        ):
            answered = self.http.ask("PATCH", target, body)
            self.assertEqual(answered.status, status, answered.body)
            self.assertIn(told, answered.body.decode())
        self.assertEqual(process_levels.level("logbus.storage"), "INFO")
