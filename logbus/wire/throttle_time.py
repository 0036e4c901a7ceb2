"""
Sets the throttle time of responses, also of those that are encoded already. Pure.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from logbus.records.file_slice import joined
from logbus.wire.element_budget import RESPONSE_ELEMENTS, element_budget
from logbus.wire.headers import response_is_tagged
from logbus.wire.messages import api
from logbus.wire.schema import decoder, encode, replaced

_HEAD = Struct(">ii")


def with_throttle_time(answer: Any, api_key: int, version: int, ms: int) -> Any:
    """
    A response with another throttle time, if its version has one.

    :param answer: a message; or ``bytes``, a body already encoded; or None: there is no response.
    """
    if isinstance(answer, bytes):
        message, _ = decoder(api(api_key).response, version)(answer, 0, element_budget(len(answer), RESPONSE_ELEMENTS))
        return joined(encode(with_throttle_time(message, api_key, version, ms), version))
    return replaced(answer, throttle_time_ms=ms) if hasattr(answer, "throttle_time_ms") else answer


def with_throttle_times(responses: bytes, api_key: int, version: int, ms: int) -> bytes:
    """Several encoded responses of one version, with their lengths and headers, with another throttle time."""
    skipped = 4 + int(response_is_tagged(api_key, api(api_key).flexible.includes(version)))
    found, start = [], 0
    while start < len(responses):
        size, correlation_id = _HEAD.unpack_from(responses, start)
        end = start + 4 + size
        body = with_throttle_time(responses[start + 4 + skipped : end], api_key, version, ms)
        found.append(_HEAD.pack(len(body) + skipped, correlation_id) + bytes(skipped - 4) + body)
        start = end
    return b"".join(found)
