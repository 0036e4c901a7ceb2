"""SaslHandshake and SaslAuthenticate on listeners without SASL."""

from __future__ import annotations

from logbus.errors import ErrorCode
from logbus.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.handlers.kit import HandlerCase


class SaslTests(HandlerCase):
    def test_illegal(self) -> None:
        """
        A client that wants to log in where nobody does is told so, and stays connected.
        """
        for version in (0, 1):
            handshake = self.client.ask(SaslHandshakeRequest(mechanism="PLAIN"), version)
            self.assertEqual((handshake.error_code, handshake.mechanisms), (ErrorCode.ILLEGAL_SASL_STATE, []))
        for version in (0, 1, 2):
            answer = self.client.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), version)
            self.assertEqual(answer.error_code, ErrorCode.ILLEGAL_SASL_STATE)
            self.assertIn("has no SASL", answer.error_message)
