"""Tests of :mod:`logbus.handlers.request_router`."""

from __future__ import annotations

from attrs import define
from twisted.trial.unittest import SynchronousTestCase

from logbus.handlers.request_router import RequestRouter, ServedApi, serves
from logbus.net.request_context import RequestContext
from logbus.records.file_slice import joined
from logbus.wire.connection import ClientConnection, ServerConnection
from logbus.wire.messages.metadata import MetadataRequest
from logbus.wire.messages.topics import CreateTopicsRequest
from logbus.wire.version_range import VersionRange


class RoutingTests(SynchronousTestCase):
    """The table of handlers."""

    def test_duplicate_handlers(self) -> None:
        """Two handlers of one API are a mistake that is found at the start."""

        @define(eq=False)
        class Family:
            @serves(3, 0, 1)
            def one(self, context: object, request: object) -> None: ...

        router = RequestRouter()
        router.add(Family())
        self.assertEqual((router.served, router.counts), ({3: (0, 1)}, {3: 0}))
        self.assertRaises(ValueError, router.add, Family())

    def test_wrapped(self) -> None:
        """Handlers of some APIs can be wrapped, by what their declarations say."""

        @define(eq=False)
        class Family:
            @serves(3, 0, 1, waits_for_metadata=True)
            def three(self, context: object, request: object) -> int:
                return 3

            @serves(19, 0, 1, forwarded=True)
            def nineteen(self, context: object, request: object) -> int:
                return 19

        family, router = Family(), RequestRouter()
        router.add(family)
        self.assertIs(router.find(Family), family)
        router.wrap(lambda api: api.forwarded, lambda handler: lambda context, request: -handler(context, request))
        connection = ServerConnection(router.served)
        answers = []
        for message in (MetadataRequest(topics=[]), CreateTopicsRequest(topics=[], timeout_ms=0)):
            frame = joined(ClientConnection().request(message, 1)[1])
            answers.append(router(RequestContext(1, "kafka", "", 0), connection.receive(frame[4:])))
        self.assertEqual(answers, [3, -19])
        self.assertEqual(router.counts, {3: 1, 19: 1})

    def test_later(self) -> None:
        """
        Handlers are made with the first of their requests, once, and wrapped as others are. Where they cannot be made,
        the request fails, and the next one tries again.
        """
        made: list[object] = []

        @define(eq=False)
        class Family:
            @serves(3, 0, 1, forwarded=True)
            def three(self, context: object, request: object) -> int:
                return 3

        def make() -> list[object]:
            made.append(Family())
            if len(made) == 1:
                raise OSError("no descriptor is left")
            return made[-1:]

        router = RequestRouter()
        router.add_later([ServedApi(3, VersionRange(0, 1), forwarded=True)], "three", make)
        self.assertRaisesRegex(ValueError, "API 3 has two handlers, three and .*Family", router.add, Family())
        router.wrap(lambda api: api.forwarded, lambda handler: lambda context, request: -handler(context, request))
        self.assertEqual((router.served, made), ({3: (0, 1)}, []))
        frame = joined(ClientConnection().request(MetadataRequest(topics=[]), 1)[1])
        request = ServerConnection(router.served).receive(frame[4:])
        context = RequestContext(1, "kafka", "", 0)
        self.assertRaises(OSError, router, context, request)
        self.assertEqual([router(context, request), router(context, request)], [-3, -3])
        self.assertEqual((len(made), router.counts), (2, {3: 3}))
