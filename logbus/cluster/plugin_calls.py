"""
Requests of a plugin to the same plugin on another broker.

They go over the connections between brokers, so the receiving plugin knows that the sender is a broker.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.cluster.peers import PLUGIN, Peers
from logbus.errors import ApiError, ErrorCode, error_of
from logbus.wire.messages.inter_broker import AskPluginRequest, AskPluginResponse

MAX_BODY_BYTES = 8 << 20
"""Largest request or answer, in bytes."""

Answers = Callable[[bytes], Deferred[bytes]]


@define(eq=False)
class PluginCalls:
    """Sends plugins' requests to other brokers, and answers those of other brokers' plugins."""

    _peers: Peers
    _answering: dict[str, Answers] = field(factory=dict, init=False)

    def answer(self, plugin: str, answers: Answers) -> None:
        """
        Register ``answers`` to serve the requests to ``plugin`` on this broker.

        :raise ValueError: the name is registered already.
        """
        if plugin in self._answering:
            raise ValueError(f"there is a plugin {plugin!r} already that other brokers may ask")
        self._answering[plugin] = answers

    async def ask(self, broker_id: int, plugin: str, body: bytes, seconds: float) -> bytes:
        """See :meth:`.IBroker.ask_plugin`."""
        broker = self._peers.broker(broker_id)
        request = AskPluginRequest(plugin=plugin, body=_checked(body))
        response: AskPluginResponse = await self._peers.request(broker, request, f"{PLUGIN}-{plugin}", seconds)
        if response.error_code:
            raise error_of(response.error_code, response.error_message)
        return bytes(response.body)

    async def asked(self, plugin: str, body: bytes) -> bytes:
        """
        Answer another broker.

        :raise ApiError: UNSUPPORTED_VERSION: there is no such plugin here; or what the plugin raises.
        """
        answers = self._answering.get(plugin)
        if answers is None:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"there is no plugin {plugin!r} on this broker")
        return _checked(await answers(body))


def _checked(body: bytes) -> bytes:
    if len(body) > MAX_BODY_BYTES:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE, f"{len(body)} bytes between plugins; at most {MAX_BODY_BYTES} are sent at once"
        )
    return body
