"""The messages between a test and a broker in a process of its own: JSON objects, one a line. Pure."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

ENVIRONMENT = "LOGBUS_TEST_CONTROL"
"""The variable that tells a broker where its test is: PORT:TOKEN."""

LONGEST = 1 << 24
"""Bytes of a line."""

HELLO = "hello"
STATE = "state"
REQUEST = "request"
ANSWER = "answer"
COUNT = "count"
DONE = "done"
SETTLE = "settle"
ADVANCE = "advance"
REBALANCE = "rebalance"


@frozen
class ControlAddress:
    """
    The port of 127.0.0.1 on which a test listens for its brokers, and the token by which it knows them.

    :ivar token: random.
    """

    port: int
    token: str = field(factory=secrets.token_hex, repr=False)

    def __str__(self) -> str:
        return f"{self.port}:{self.token}"

    @classmethod
    def parse(cls, text: str) -> ControlAddress:
        """The address that :meth:`__str__` gives."""
        port, _, token = text.partition(":")
        return cls(int(port), token)


def line_of(op: str, **values: Any) -> bytes:
    """A line that says something."""
    return json.dumps({"op": op, **values}, separators=(",", ":")).encode() + b"\n"


def said_in(line: bytes) -> Mapping[str, Any]:
    """What a line says."""
    found: Mapping[str, Any] = json.loads(line)
    return found
