"""Tests of :mod:`logbus.admin.log_dirs`: log directories of a whole broker over HTTP."""

from __future__ import annotations

from tests.admin.broker_kit import HttpBrokerCase
from tests.handlers.kit import a_batch


class LogDirTests(HttpBrokerCase):
    """Log directories."""

    def test_describe(self) -> None:
        """Each directory is told with its size, and how much there is."""
        self.client.produce(a_batch(b"a" * 1000))
        (found,) = self.http.get("/api/v1/brokers/0/log-dirs")["items"]
        self.assertEqual((found["partitions"], found["error"], found["cordoned"]), (2, None, False))
        self.assertGreater(found["size_bytes"], 1000)

    def test_another_broker(self) -> None:
        """There is no answer for a broker that is not there."""
        self.assertEqual(self.http.ask("GET", "/api/v1/brokers/7/log-dirs").status, 404)
