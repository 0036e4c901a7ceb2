"""
The client side of SASL PLAIN, SCRAM and OAUTHBEARER, with the errors of the pipeline. Pure.

An exchange is a generator: it yields the client's messages and is sent the server's. It returns on success and raises
:class:`~logbus.pipeline.errors.AuthenticationFailed` on failure.
"""

from __future__ import annotations

from logbus.pipeline.errors import AuthenticationFailed
from logbus.security.sasl.mechanism import SaslAuthenticationError
from logbus.security.sasl.oauthbearer import OAUTHBEARER, oauthbearer_message
from logbus.security.sasl.plain import PLAIN, plain_message
from logbus.security.sasl.scram_client import Exchange, scram_exchange


def client_exchange(mechanism: str, username: str, password: str, nonce: str) -> Exchange:
    """
    Begin an exchange.

    :param password: of OAUTHBEARER the token.
    :param mechanism: one of :data:`logbus.pipeline.blocking.connection_settings.MECHANISMS`.
    :param nonce: random text, for SCRAM: printable, without commas.
    """
    if mechanism == PLAIN:
        yield plain_message(username, password)
        return
    if mechanism == OAUTHBEARER:
        if error := (yield oauthbearer_message(password)):
            # The server ends the login after this message, and then says no more than that it failed.
            yield b"\x01"
            raise AuthenticationFailed(f"the token is not accepted: {error.decode('utf-8', 'replace')}")
        return
    try:
        yield from scram_exchange(mechanism, username, password, nonce)
    except SaslAuthenticationError as e:
        raise AuthenticationFailed(str(e)) from None
