"""A whole broker in memory, with an admin site in front of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.site import AdminSite
from logbus.ilogbus import Listener
from tests.admin.harness import Answered, Connection, request
from tests.handlers.kit import Client, MemoryBroker


@define(eq=False)
class HttpBroker:
    """The HTTP API of a broker."""

    server: MemoryBroker
    site: AdminSite = field(init=False)

    def __attrs_post_init__(self) -> None:
        site = self.server.broker._admin_server.factory(
            self.server.broker.plugin_services, Listener("admin", "admin", "tcp:8080:interface=127.0.0.1")
        )
        assert isinstance(site, AdminSite)
        self.site = site

    def connect(self) -> Connection:
        return Connection(self.site)

    def ask(self, method: str, target: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answered:
        """One request on a connection of its own."""
        connection = self.connect()
        connection.send(request(method, target, body, headers))
        for _ in range(2000):
            if connection.transport.value():
                break
            self.server.reactor.advance(0.001)
        for _ in range(50):
            self.server.reactor.advance(0)
        answered = Answered(connection.take(), method)
        connection.lose()
        return answered

    def get(self, target: str) -> Any:
        """What a request returns that succeeds."""
        answered = self.ask("GET", target)
        assert answered.status == 200, answered.body
        return json.loads(answered.body)


class HttpBrokerCase(SynchronousTestCase):
    """A broker with a topic ``t`` of two partitions, its HTTP API, and a Kafka client."""

    config: Mapping[str, str] = {}

    def setUp(self) -> None:
        self.server = MemoryBroker(self.config).start()
        self.addCleanup(self.server.close)
        self.server.create("t", 2)
        self.client: Client = self.server.connect()
        self.http = HttpBroker(self.server)
