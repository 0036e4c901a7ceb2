"""
Errors of the registry, with the codes of Confluent's registry.

The first three digits are the HTTP status (docs.confluent.io, "Schema Registry API Reference"). Some clients also
compare messages: these begin like those of Confluent's registry, are identical where a client compares the whole
message, and else continue with details.
"""

from __future__ import annotations

from enum import IntEnum

from logbus.errors import LogbusError

LONGEST_MESSAGE = 2_000
"""Characters of a message, which may quote the request."""


class Code(IntEnum):
    """Confluent's error codes."""

    BAD_REQUEST = 400
    NOT_FOUND = 404
    METHOD_NOT_ALLOWED = 405
    FORBIDDEN = 40301
    INCOMPATIBLE_SCHEMA = 409
    UNPROCESSABLE = 422
    NOT_IMPLEMENTED = 501
    SUBJECT_NOT_FOUND = 40401
    VERSION_NOT_FOUND = 40402
    SCHEMA_NOT_FOUND = 40403
    SUBJECT_SOFT_DELETED = 40404
    SUBJECT_NOT_SOFT_DELETED = 40405
    VERSION_SOFT_DELETED = 40406
    VERSION_NOT_SOFT_DELETED = 40407
    NO_COMPATIBILITY_OF_ITS_OWN = 40408
    NO_MODE_OF_ITS_OWN = 40409
    INVALID_SCHEMA = 42201
    INVALID_VERSION = 42202
    INVALID_COMPATIBILITY = 42203
    INVALID_MODE = 42204
    NOT_PERMITTED = 42205
    REFERENCE_EXISTS = 42206
    ID_DOES_NOT_MATCH = 42207
    INVALID_SUBJECT = 42208
    SCHEMA_TOO_LARGE = 42209
    STORE = 50001
    TIMED_OUT = 50002
    FORWARDING_FAILED = 50003
    NO_LEADER = 50004
    BUSY = 503

    @property
    def status(self) -> int:
        """The HTTP status."""
        return int(str(int(self))[:3])


class RegistryRefusal(LogbusError):
    """
    A request is answered with an error.

    :ivar message: what is wrong, and what is expected.
    """

    def __init__(self, code: Code, message: str) -> None:
        if len(message) > LONGEST_MESSAGE:
            message = message[:LONGEST_MESSAGE] + "…"
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code.status


def invalid_schema(reason: str) -> RegistryRefusal:
    """Return the error for an invalid schema."""
    return RegistryRefusal(Code.INVALID_SCHEMA, f"Invalid schema: {reason}")
