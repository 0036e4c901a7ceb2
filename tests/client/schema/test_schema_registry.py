"""The client of a schema registry."""

from __future__ import annotations

from typing import Any

from treq.testing import RequestTraversalAgent
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.task import Clock
from twisted.protocols.policies import WrappingFactory
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.iweb import IAgent
from twisted.web.server import Site
from zope.interface import implementer

from logbus.client.schema.registry_http import CONTENT_TYPE
from logbus.client.schema.schema_registry import (
    RegisteredSchema,
    RegistryError,
    RegistryUnreachable,
    SchemaReference,
    SchemaRegistry,
)
from logbus.errors import ConfigError
from logbus.testing.schema_registry import Registry
from tests.net.fakes import Loop

TEXT = '{"type": "string"}'
URL = "http://registry:8081"


@implementer(IAgent)
class Agent:
    """Passes requests to a registry in memory; hosts that are down refuse."""

    def __init__(self, registry: Registry) -> None:
        self.inner = RequestTraversalAgent(registry.resource)
        self.down: set[str] = set()
        self.hosts: list[str] = []

    def request(self, method: bytes, uri: bytes, headers: Any = None, bodyProducer: Any = None) -> Any:
        host = uri.decode().split("/")[2]
        self.hosts.append(host)
        if host in self.down:
            return fail(ConnectionRefusedError())
        return self.inner.request(method, uri, headers, bodyProducer)


class RegistryCase(SynchronousTestCase):
    """A registry in memory, and a client of it on a virtual clock."""

    def setUp(self) -> None:
        self.registry = Registry()
        self.clock = Clock()
        self.agent = Agent(self.registry)
        self.client = self.made()

    def made(self, urls: Any = URL, **options: Any) -> SchemaRegistry:
        return SchemaRegistry(self.clock, urls, agent=self.agent, **options)

    def settle(self, seconds: float = 0.0) -> None:
        """Let requests be served, and time pass."""
        for _ in range(20):
            self.agent.inner.flush()
        self.clock.advance(seconds)
        for _ in range(20):
            self.agent.inner.flush()
            self.clock.advance(0)

    def get(self, waiting: Any, seconds: float = 0.0) -> Any:
        self.settle(seconds)
        return self.successResultOf(waiting)

    def refused(self, waiting: Any, seconds: float = 0.0) -> Any:
        self.settle(seconds)
        return self.failureResultOf(waiting).value


class RegistryTests(RegistryCase):
    def test_register_and_look_up(self) -> None:
        """
        The same schema has the same id under every subject, and each subject its own versions.
        """
        self.assertEqual(self.get(self.client.register("a-value", TEXT)), 1)
        self.assertEqual(self.get(self.client.register("b/c d", TEXT)), 1)
        self.assertEqual(self.get(self.client.register("b/c d", '"int"')), 2)
        self.assertEqual(self.get(self.client.subjects()), ["a-value", "b/c d"])
        self.assertEqual(self.get(self.client.versions("b/c d")), [1, 2])
        self.assertEqual(self.get(self.client.version("b/c d")), RegisteredSchema("b/c d", 2, 2, '"int"'))
        self.assertEqual(self.get(self.client.version("b/c d", 1)).id, 1)
        self.assertEqual(self.get(self.client.lookup("a-value", TEXT)), RegisteredSchema("a-value", 1, 1, TEXT))

    def test_schemas_are_cached(self) -> None:
        """
        It never changes; nor is it asked for twice at the same time, nor after it was registered here.
        """
        self.registry.schemas.append({"schema": TEXT})
        self.registry.troubles.append(None)
        both = [self.client.schema(1), self.client.schema(1)]
        self.registry.release()
        self.assertEqual([self.get(each) for each in both], [TEXT, TEXT])
        self.assertEqual(self.get(self.client.schema(1)), TEXT)
        self.get(self.client.register("s", '"int"'))
        self.get(self.client.register("s", '"int"'))
        self.assertEqual(self.get(self.client.schema(2)), '"int"')
        self.assertEqual(self.registry.paths(), ["GET /schemas/ids/1", "POST /subjects/s/versions"])

    def test_same_text_of_another_schema(self) -> None:
        """
        A text is another schema with another type, or with other versions of what it refers to: these are asked for.
        """
        of = [SchemaReference("user.avsc", "user", version) for version in (1, 2)]
        for more in ((), ("JSON",), ("AVRO", [of[0]]), ("AVRO", [of[1]]), ("AVRO", [of[0]]), ("AVRO",)):
            self.get(self.client.register("s", TEXT, *more))
        self.assertEqual(self.registry.paths(), ["POST /subjects/s/versions"] * 4)
        self.get(self.client.lookup("s", TEXT, "PROTOBUF"))
        self.get(self.client.register("s", TEXT, "PROTOBUF"))
        self.assertEqual(self.registry.paths()[4:], ["POST /subjects/s"])

    def test_cancelled_request(self) -> None:
        """
        The request goes on for them; and if all give up, the answer is kept all the same.
        """
        self.registry.schemas.append({"schema": TEXT})
        self.registry.troubles += [None, None]
        first, second = self.client.schema(1), self.client.schema(1)
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.registry.release()
        self.assertEqual(self.get(second), TEXT)
        self.registry.schemas.append({"schema": '"int"'})
        alone = self.client.schema(2)
        alone.cancel()
        self.failureResultOf(alone, CancelledError)
        self.registry.release()
        self.settle()
        self.assertEqual(self.successResultOf(self.client.schema(2)), '"int"')

    def test_registry_errors(self) -> None:
        """
        They are not tried again, and not kept: what is not there may come.
        """
        self.registry.incompatible.add('"incompatible"')
        for waiting, status, code, words in [
            (self.client.schema(7), 404, 40403, "Schema not found"),
            (self.client.version("no"), 404, 40401, "Subject 'no' not found."),
            (self.client.lookup("no", TEXT), 404, 40401, "Subject 'no' not found."),
            (self.client.register("s", "{"), 422, 42201, "Invalid schema"),
            (self.client.register("s", '"incompatible"'), 409, 409, "incompatible"),
        ]:
            error = self.refused(waiting)
            self.assertIsInstance(error, RegistryError)
            self.assertEqual((error.status, error.error_code), (status, code))
            self.assertIn(words, str(error))
            self.assertIn(URL, str(error))
        self.assertEqual(len(self.registry.seen), 5)
        self.registry.schemas += [{"schema": TEXT}] * 7
        self.assertEqual(self.get(self.client.schema(7)), TEXT)

    def test_the_headers(self) -> None:
        """
        The content type of the interface, name and password, and what else was asked for.
        """
        client = self.made(auth=("me", "secret"), headers={"X-Realm": "blue"})
        self.get(client.register("s", TEXT))
        headers = self.registry.seen[0][2]
        for name, value in [
            ("Accept", CONTENT_TYPE),
            ("Content-Type", CONTENT_TYPE),
            ("Authorization", "Basic bWU6c2VjcmV0"),
            ("X-Realm", "blue"),
        ]:
            self.assertEqual(headers.getRawHeaders(name), [value])

    def test_trouble_is_waited_out(self) -> None:
        """
        A registry that is about to come back is asked again, a little later each time; so is a gateway before it.
        """
        self.registry.schemas.append({"schema": TEXT})
        self.registry.troubles += [(503, b""), (429, b"{}"), (200, b"<html>")]
        waiting = self.client.schema(1)
        self.settle(0.1)
        self.assertNoResult(waiting)
        self.settle(0.2)
        self.assertNoResult(waiting)
        self.assertEqual(self.get(waiting, 0.4), TEXT)

    def test_persistent_errors(self) -> None:
        """After the last attempt the registry's error is raised."""
        self.registry.troubles += [(500, b'{"error_code": 50001, "message": "Error in the backend datastore"}')] * 4
        waiting = self.client.schema(1)
        for _ in range(3):
            self.settle(1)
        error = self.refused(waiting)
        self.assertEqual((error.status, error.error_code), (500, 50001))

    def test_another_registry_takes_over(self) -> None:
        """
        Of several the next is asked at once.
        """
        self.registry.schemas.append({"schema": TEXT})
        self.agent.down.add("one:8081")
        client = self.made(["http://one:8081/", "http://two:8081"])
        self.assertEqual(self.get(client.schema(1)), TEXT)
        self.assertEqual(self.agent.hosts, ["one:8081", "two:8081"])

    def test_unreachable_registry(self) -> None:
        """The error has each address and its failure; a silent registry times out."""
        self.agent.down.add("one:8081")
        client = self.made(["http://one:8081", "http://two:8081"], attempts=2, timeout=3.0)
        self.registry.troubles.append(None)
        waiting = client.schema(1)
        self.settle(2.9)
        self.assertNoResult(waiting)
        error = self.refused(waiting, 0.2)
        self.assertIsInstance(error, RegistryUnreachable)
        self.assertIn("http://one:8081: Connection was refused", str(error))
        self.assertIn("http://two:8081: no answer in 3 s", str(error))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_giving_up(self) -> None:
        """A cancelled request is not retried, and no timer is left."""
        self.registry.troubles.append(None)
        waiting = self.client.register("s", TEXT)
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.settle(60)
        self.assertEqual(len(self.registry.seen), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_closing(self) -> None:
        """Waiting callers get an error, and no timer is left."""
        self.registry.troubles.append(None)
        waiting = self.client.schema(1)
        self.successResultOf(self.client.close())
        self.failureResultOf(waiting, RegistryUnreachable)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_invalid_responses(self) -> None:
        """They are refused; the error names them."""
        self.registry.troubles += [(200, b"[]"), (200, b'{"schema": 3}'), (200, b'{"id": "x"}')]
        for waiting in (self.client.schema(1), self.client.schema(1), self.client.register("s", TEXT)):
            self.assertIn("answer has no", str(self.refused(waiting)))
        self.registry.schemas.append({"schema": TEXT, "references": [{"name": "x", "subject": "y", "version": 1}]})
        self.assertIn("rests on others", str(self.refused(self.client.schema(1))))

    def test_urls_are_checked(self) -> None:
        """
        Also those that would put a password into logs.
        """
        for wrong in ("registry:8081", "ftp://x", "http://", "http://x:port", [], "http://me:secret@x"):
            error = self.assertRaises(ConfigError, self.made, wrong)
            self.assertNotIn("secret", str(error))


class SocketTests(SynchronousTestCase):
    def test_over_a_socket(self) -> None:
        """
        Twisted's own agent, and connections that are closed in the end.
        """
        loop = Loop()
        self.addCleanup(loop.close)
        # Names are looked up in threads, which nobody starts in a reactor that is turned by hand.
        threads = loop.reactor.getThreadPool()
        threads.start()
        self.addCleanup(threads.stop)
        connections = WrappingFactory(Site(Registry().resource, reactor=loop.reactor))
        port = loop.reactor.listenTCP(0, connections, interface="127.0.0.1")
        client = SchemaRegistry(loop.reactor, f"http://127.0.0.1:{port.getHost().port}")

        async def talk() -> str:
            self.assertEqual(await client.register("s", TEXT), 1)
            found = (await client.version("s")).schema
            await client.close()
            return found

        talking = Deferred.fromCoroutine(talk())
        loop.until(lambda: talking.called and not connections.protocols)
        self.assertEqual(self.successResultOf(talking), TEXT)
