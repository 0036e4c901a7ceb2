"""
Connects to a broker.

.. code-block:: python

    channel = await connect(endpoint, timers, client_id="copier")
    response = await channel.request(MetadataRequest(topics=None))
    await channel.close()
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from logbus.errors import ApiError, ErrorCode, RequestTimedOut
from logbus.net.channel import Channel
from logbus.timers import Timers
from logbus.wire.messages.api_versions import ApiVersionsResponse
from logbus.wire.negotiation import NEWEST, api_versions_request, served, version_after_refusal

if TYPE_CHECKING:
    from twisted.internet.interfaces import IStreamClientEndpoint


async def negotiate(channel: Channel) -> None:
    """
    Ask the broker for its API versions (KIP-35, KIP-511), at first in our highest version, then in one it supports.

    :raises ApiError: the broker answered with an error.
    :raises Disconnected: the broker closed the connection, as brokers before 0.10 do.
    """
    response: ApiVersionsResponse = await channel.request(api_versions_request(NEWEST), NEWEST)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        version = version_after_refusal(response)
        response = await channel.request(api_versions_request(version), version)
    if response.error_code:
        code = next((code for code in ErrorCode if code == response.error_code), ErrorCode.UNKNOWN_SERVER_ERROR)
        raise ApiError(code, f"{channel.peer} does not say which versions it serves: error {response.error_code}")
    channel.versions, channel.features = served(response)


def connect(
    endpoint: IStreamClientEndpoint,
    timers: Timers,
    *,
    client_id: str | None = None,
    timeout: float = 30.0,
    response_max_bytes: int = 128 * 1024 * 1024,
    lends: bool = False,
    begin: Callable[[Channel], Awaitable[object]] = negotiate,
    answered: Callable[[str, float], object] | None = None,
) -> Deferred[Channel]:
    """
    Connect to a broker and negotiate API versions.

    :param timers: keeps the deadlines; may be shared by any number of channels.
    :param client_id: sent with each request.
    :param timeout: seconds until connected and negotiated, and afterwards for each response.
    :param response_max_bytes: the longest response accepted.
    :param lends: records in a response are only lent: they are views of the channel's memory, valid until the
        response's callback returns. That makes large responses cheaper.
    :param begin: the first exchange on the connection; it sets :attr:`Channel.versions`.
    :param answered: see :class:`~logbus.net.channel.Channel`.
    :returns: fires with the channel, or fails as the endpoint or ``begin`` does. Cancelling it closes the connection.
    """

    def build() -> Channel:
        return Channel(
            timers,
            client_id=client_id,
            timeout=timeout,
            response_max_bytes=response_max_bytes,
            lends=lends,
            answered=answered,
        )

    async def connected() -> Channel:
        factory = Factory.forProtocol(build)
        # Otherwise each attempt would log that a factory starts and stops.
        factory.noisy = False
        channel = cast(Channel, await endpoint.connect(factory))
        try:
            await begin(channel)
        except Exception:
            # Not when the garbage collector closes the coroutine: it may have closed those that this wakes, too.
            channel.close()
            raise
        return channel

    connecting = Deferred.fromCoroutine(connected())
    expired = False

    def expire() -> None:
        nonlocal expired
        expired = True
        connecting.cancel()

    timer = timers.call_later(timeout, expire)

    def done(result: Channel | Failure) -> Channel | Failure:
        timer.cancel()
        if expired and isinstance(result, Failure) and result.check(CancelledError):
            return Failure(RequestTimedOut(f"not connected after {timeout:g} s"))
        return result

    return connecting.addBoth(done)
