"""
Requests of a plugin to the same plugin on another broker.

They go over the connections between brokers, so the receiving plugin knows that the sender is a broker.

A broker answers the requests of one connection one after the other, so a long one, such as a search of records, would
hold up those behind it. So each goes over a connection that none of the others waits on, as long as there are not too
many; then over the one with the fewest.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred

from logbus.cluster.peers import PLUGIN, Peers
from logbus.errors import ApiError, ErrorCode, error_of
from logbus.wire.messages.inter_broker import AskPluginRequest, AskPluginResponse

MAX_BODY_BYTES = 8 << 20
"""Largest request or answer, in bytes."""

MAX_LANES = 8
"""Connections to one broker for one plugin."""

Answers = Callable[[bytes], Deferred[bytes]]


@define(eq=False)
class PluginCalls:
    """Sends plugins' requests to other brokers, and answers those of other brokers' plugins."""

    _peers: Peers
    _answering: dict[str, Answers] = field(factory=dict, init=False)
    _waiting: dict[tuple[int, str], list[int]] = field(factory=dict, init=False)
    """How many requests wait on each connection, by broker and plugin; the broker's are forgotten when none waits."""

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
        lanes = self._waiting.setdefault((broker_id, plugin), [])
        lane = free_lane(lanes)
        lanes[lane] += 1
        purpose = f"{PLUGIN}-{plugin}-{lane}" if lane else f"{PLUGIN}-{plugin}"
        try:
            response: AskPluginResponse = await self._peers.request(broker, request, purpose, seconds)
        except CancelledError:
            if lanes[lane] == 1:
                # The other broker still works on it; the next request does not wait for that.
                self._peers.forget(broker, purpose)
            raise
        finally:
            lanes[lane] -= 1
            if not any(lanes):
                self._waiting.pop((broker_id, plugin), None)
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


def free_lane(waiting: list[int]) -> int:
    """
    Return the number of the connection for the next request.

    :param waiting: requests that wait on each; becomes longer if the next one is a new one.
    """
    fewest = min(waiting, default=1)
    if fewest and len(waiting) < MAX_LANES:
        waiting.append(0)
        return len(waiting) - 1
    return waiting.index(fewest)


def _checked(body: bytes) -> bytes:
    if len(body) > MAX_BODY_BYTES:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE, f"{len(body)} bytes between plugins; at most {MAX_BODY_BYTES} are sent at once"
        )
    return body
