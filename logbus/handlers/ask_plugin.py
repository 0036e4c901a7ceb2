"""
AskPlugin: delivers a call from a plugin on another broker to the same plugin on this one.
"""

from __future__ import annotations

from typing import Self

from attrs import define
from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from logbus.cluster.plugin_calls import PluginCalls
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.inter_broker_identity import InterBrokerIdentity
from logbus.handlers.request_router import serves, task
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.inter_broker import AskPluginRequest, AskPluginResponse


@define(eq=False)
class AskPluginHandlers:
    """Serves AskPlugin."""

    _calls: PluginCalls
    _identity: InterBrokerIdentity
    _log = Logger()

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.plugin_calls, InterBrokerIdentity(broker.warning_limiter))

    @serves(1006, 0, 0)
    @task
    async def ask_plugin(self, context: RequestContext, request: Request) -> AskPluginResponse:
        message: AskPluginRequest = request.message
        try:
            self._identity.require(context, context.broker, "asked a plugin")
            return AskPluginResponse(body=await self._calls.asked(message.plugin, bytes(message.body)))
        except ApiError as e:
            return AskPluginResponse(error_code=e.code, error_message=e.message)
        except CancelledError:
            # Nobody waits for the answer any more.
            raise
        except Exception:
            # A plugin's error must not close the connection to a broker.
            self._log.failure("the plugin {plugin!r} failed to answer another broker", plugin=message.plugin)
            return AskPluginResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
