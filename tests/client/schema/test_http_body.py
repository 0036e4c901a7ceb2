"""Bodies of HTTP requests and responses."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase
from twisted.web.client import ResponseDone

from logbus.client.schema.http_body import BodyTooLarge, bounded_body


class HttpBodyTests(SynchronousTestCase):
    def test_a_body_is_bounded(self) -> None:
        """The connection of an endless response is closed."""

        class Response:
            def deliverBody(self, body: Any) -> None:
                self.body = body
                body.makeConnection(self)
                self.aborted = False

            def abortConnection(self) -> None:
                self.aborted = True

        response = Response()
        reading = bounded_body(response, 5)
        response.body.dataReceived(b"12345")
        self.assertNoResult(reading)
        response.body.dataReceived(b"6")
        self.failureResultOf(reading, BodyTooLarge)
        self.assertTrue(response.aborted)
        response.body.dataReceived(b"7")
        from twisted.python.failure import Failure

        response.body.connectionLost(Failure(ResponseDone()))
