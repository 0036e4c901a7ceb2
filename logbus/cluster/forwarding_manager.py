"""
Forwards client requests that only the controller can serve to it (KIP-590; Kafka: ForwardingManager).

The answer comes back as the encoded body for the client. A request is forwarded only once: a broker that is not the
controller (any more) refuses it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from attrs import define, field

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.peers import FORWARD, Peers
from logbus.errors import ApiError, ErrorCode, error_of
from logbus.net.request_context import BROKER_ITSELF
from logbus.net.time_slices import TimeSlice
from logbus.records.file_slice import joined
from logbus.wire.codegen import ELEMENTS_PER_STEP
from logbus.wire.connection import api_key_of
from logbus.wire.messages.inter_broker import ForwardRequest, ForwardResponse
from logbus.wire.schema import EncodeError, encode, incremental_encoder

CONNECTIONS = 4
"""Connections over which requests are spread, since each answers in order."""

TIMEOUT_SECONDS = 10.0
"""Seconds that an answer may take beyond the request's own timeout."""


@define(eq=False)
class ForwardingManager:
    """Sends requests to the controller, when it is another broker."""

    broker_id: int
    metadata: ClusterMetadata
    peers: Peers
    _busy: Counter[int] = field(factory=Counter, init=False)

    @property
    def is_needed(self) -> bool:
        """Whether another broker is the controller."""
        return self.metadata.controller_id not in (self.broker_id, -1)

    async def send(
        self,
        message: Any,
        version: int,
        *,
        principal: str = BROKER_ITSELF,
        client_id: str | None = None,
        host: str = "",
        by_delegation_token: bool = False,
        timeout_ms: int = 0,
        time_slice: TimeSlice | None = None,
    ) -> bytes:
        """
        Forward a request.

        :param principal: of the client; sent along with its ``client_id``, its ``host``, and how it logged in.
        :param timeout_ms: the timeout of the request itself; 0 or less: 30 s.
        :param time_slice: that of a large request, which is encoded in slices; None: it is encoded at once.
        :return: the body of the response, encoded at ``version``.
        :raise ApiError: NOT_CONTROLLER: nothing was done; NETWORK_EXCEPTION and REQUEST_TIMED_OUT: it may have been.
        """
        controller = self.metadata.brokers.get(self.metadata.controller_id)
        if controller is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "no controller is known")
        try:
            if time_slice is None:
                body = joined(encode(message, version))
            else:
                steps = incremental_encoder(type(message), version)(message)
                body = joined(await time_slice.finish(steps, ELEMENTS_PER_STEP))
        except EncodeError as e:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(e)) from None
        request = ForwardRequest(
            api_key=api_key_of(message),
            api_version=version,
            principal=principal,
            client_id=client_id,
            host=host,
            body=body,
            by_delegation_token=by_delegation_token,
        )
        seconds = (timeout_ms / 1000 if timeout_ms > 0 else 30.0) + TIMEOUT_SECONDS
        way = min(range(CONNECTIONS), key=lambda number: self._busy[number])
        self._busy[way] += 1
        try:
            response: ForwardResponse = await self.peers.request(controller, request, f"{FORWARD}-{way}", seconds)
        except ApiError as e:
            if e.code is ErrorCode.BROKER_NOT_AVAILABLE:  # The request was not sent.
                raise ApiError(ErrorCode.NOT_CONTROLLER, e.message) from None
            raise
        finally:
            self._busy[way] -= 1
        if response.error_code:
            raise error_of(response.error_code, response.error_message)
        return response.body
