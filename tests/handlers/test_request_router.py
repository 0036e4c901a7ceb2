"""Tests of :mod:`logbus.handlers.request_router`."""

from __future__ import annotations

from attrs import define
from twisted.trial.unittest import SynchronousTestCase

from logbus.handlers.request_router import RequestRouter, serves


class Routing(SynchronousTestCase):
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
