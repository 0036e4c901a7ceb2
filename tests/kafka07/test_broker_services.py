"""What a broker gives to plugins, and the 0.7 protocol on it, without sockets."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from zope.interface.verify import verifyObject

from logbus.errors import ApiError, ErrorCode
from logbus.ilogbus import IBroker, IPluginClient, IPluginFile, Listener
from logbus.kafka07.requests import Fetch as FetchRequest
from logbus.kafka07.requests import FetchPart, Offsets, Produce, ProducePart, Request
from logbus.kafka07.service import KafkaSevenService
from logbus.kafka07.virtual_logs import VirtualLogs
from tests.handlers.kit import HandlerCase, a_batch
from tests.kafka07 import client as old

LISTENER = Listener("old", "kafka07", "tcp:0")


class PluginServices(HandlerCase):
    def setUp(self) -> None:
        super().setUp()
        self.plugins = self.server.broker.plugin_services
        self.service = KafkaSevenService(
            self.plugins, self.server.reactor, VirtualLogs(self.plugins, self.server.reactor)
        )
        self.sender = self.plugins.client(LISTENER, "10.0.0.9", 7)

    def ask(self, request: Request) -> bytes | None:
        """The answer to a request of 0.7."""
        found = Deferred.fromCoroutine(self.service.answer(self.sender, request))
        self.client.turn()
        for _ in range(20):
            if found.called:
                break
            self.server.reactor.advance(0.01)
        result: bytes | None = self.successResultOf(found)
        return result

    def test_interfaces(self) -> None:
        """
        The services are what the interfaces say.
        """
        verifyObject(IBroker, self.plugins)
        verifyObject(IPluginFile, self.plugins.plugin_file("t", 0, "kafka07"))
        verifyObject(IPluginClient, self.sender)

    def test_a_file(self) -> None:
        """
        A file is beside the log, and is deleted with it.
        """
        file = self.plugins.plugin_file("t", 0, "lines-2")
        self.assertEqual(file.read(), b"")
        file.append(b"ab")
        file.append(b"cd")
        self.assertEqual(file.read(), b"abcd")
        self.server.now(file.replace(b"ef"))
        file.append(b"g")
        self.assertEqual(self.disk.read("t-0/lines-2.plugin"), b"efg")
        self.assertEqual(self.plugins.plugin_file("t", 1, "lines-2").read(), b"")
        for name in ("", "A", "a/b", "a..", "-a"):
            self.assertRaises(ValueError, self.plugins.plugin_file, "t", 0, name)
        with self.assertRaises(ApiError) as failed:
            self.plugins.plugin_file("t", 9, "lines").read()
        self.assertIs(failed.exception.code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def test_messages_in_and_out(self) -> None:
        """
        A 0.7 client reads what it wrote, and batches of others.
        """
        self.ask(Produce([ProducePart("t", 0, memoryview(old.message(b"a") + old.message(b"bc")))]))
        self.client.produce(a_batch(b"d", None))
        answer = self.ask(FetchRequest(FetchPart("t", 0, 0, 1000))) or b""
        found, end = old.read_set(old.checked(answer[4:]), 0)
        self.assertEqual([each.payload for each in found], [b"a", b"bc", b"d", b""])
        answer = self.ask(Offsets("t", 0, -1, 1)) or b""
        self.assertEqual(old.read_offsets(answer[4:]), [end])
        self.assertEqual(self.plugins.log_start_offset("t", 0), 0)


class Rights(HandlerCase):
    config = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:boss"}

    def test_the_listener_is_the_principal(self) -> None:
        """
        Clients of a listener are who it is named after, or who logged in.
        """
        plugins = self.server.broker.plugin_services
        nobody = plugins.client(LISTENER, "10.0.0.9", 7)
        self.assertEqual((nobody.principal, nobody.host), ("User:old", "10.0.0.9"))
        for require in (nobody.require_read, nobody.require_write, nobody.require_describe):
            with self.assertRaises(ApiError) as failed:
                require("t")
            self.assertIs(failed.exception.code, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        boss = plugins.client(Listener("boss", "kafka07", "tcp:0"), "10.0.0.9", 7)
        for require in (boss.require_read, boss.require_write, boss.require_describe):
            require("t")
            require("missing")
        self.assertEqual(plugins.client(LISTENER, "", 0, "User:boss").principal, "User:boss")
