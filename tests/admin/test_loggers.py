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

    def test_two_people(self) -> None:
        """Of two people who change what a broker logs, the second is told which logger; a trial changes nothing."""
        tag = {"If-Match": self.http.ask("GET", LOGGERS).headers["ETag"]}
        tried = self.http.ask("PATCH", f"{LOGGERS}?validate_only=true", {"logbus.storage": "WARN"}, tag)
        self.assertEqual((tried.status, tried.json["items"][0]["level"]), (200, "INFO"))
        self.assertEqual(self.http.ask("PATCH", LOGGERS, {"logbus.storage": "WARN"}, tag).status, 200)
        second = self.http.ask("PATCH", LOGGERS, {"logbus.storage": "ERROR"}, tag)
        self.assertEqual(second.status, 412)
        self.assertIn("logbus.storage", second.json["detail"])
        self.assertEqual(process_levels.level("logbus.storage"), "WARN")

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
