"""
Errors in HTTP: a status, and a JSON object with the details of the problem (RFC 9457).
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from logbus.errors import ApiError, ConfigError, ErrorCode, LogbusError

CONTENT_TYPE = "application/problem+json"

STATUS_OF: Mapping[ErrorCode, HTTPStatus] = MappingProxyType(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: HTTPStatus.NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_ID: HTTPStatus.NOT_FOUND,
        ErrorCode.GROUP_ID_NOT_FOUND: HTTPStatus.NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: HTTPStatus.NOT_FOUND,
        ErrorCode.TOPIC_ALREADY_EXISTS: HTTPStatus.CONFLICT,
        ErrorCode.NON_EMPTY_GROUP: HTTPStatus.CONFLICT,
        ErrorCode.REASSIGNMENT_IN_PROGRESS: HTTPStatus.CONFLICT,
        ErrorCode.TOPIC_DELETION_DISABLED: HTTPStatus.FORBIDDEN,
        ErrorCode.POLICY_VIOLATION: HTTPStatus.FORBIDDEN,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED: HTTPStatus.TOO_MANY_REQUESTS,
        ErrorCode.REQUEST_TIMED_OUT: HTTPStatus.GATEWAY_TIMEOUT,
        ErrorCode.UNSUPPORTED_VERSION: HTTPStatus.NOT_IMPLEMENTED,
        ErrorCode.BROKER_NOT_AVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR: HTTPStatus.SERVICE_UNAVAILABLE,
        ErrorCode.NOT_CONTROLLER: HTTPStatus.SERVICE_UNAVAILABLE,
    }
)
"""Statuses of Kafka's codes that do not follow from whether the code is retriable."""

RETRY_AFTER_SECONDS = 1

PASSING = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""Statuses of what passes: their answers have ``Retry-After``."""


class HttpProblem(LogbusError):
    """
    An error of HTTP that has no code in Kafka.

    :param detail: what is wrong, and what is expected.
    :param headers: more headers of the answer, such as ``Allow``.
    """

    def __init__(self, status: HTTPStatus, detail: str, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers


def status_of(code: ErrorCode) -> HTTPStatus:
    """Return the status for a code of Kafka: 503 if a retry may help, 400 if the client has to change something."""
    known = STATUS_OF.get(code)
    if known is not None:
        return known
    return HTTPStatus.SERVICE_UNAVAILABLE if code.retriable else HTTPStatus.BAD_REQUEST


def problem(status: HTTPStatus, detail: str, **more: Any) -> dict[str, Any]:
    """
    Return the members of a problem whose type is "about:blank" (RFC 9457, 4.2.1).

    :param more: other members; ``retriable`` follows from the status if it is not among them.
    """
    told = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail, **more}
    told.setdefault("retriable", status in PASSING or status is HTTPStatus.GATEWAY_TIMEOUT)
    return told


def problem_of(error: BaseException) -> tuple[HTTPStatus, dict[str, Any], Mapping[str, str]]:
    """
    Return what a client sees of an error.

    :return: the status, the members of the problem, and more headers. The message of an unexpected error goes only to
        the log.
    """
    headers: dict[str, str] = {}
    if isinstance(error, HttpProblem):
        status, told = error.status, problem(error.status, error.detail)
        headers |= error.headers
    elif isinstance(error, ApiError):
        status = status_of(error.code)
        told = problem(status, error.message, error=error.code.name, retriable=error.code.retriable)
    elif isinstance(error, ConfigError):
        status = HTTPStatus.BAD_REQUEST
        told = problem(status, str(error), error=ErrorCode.INVALID_CONFIG.name, retriable=False)
    else:
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        told = problem(status, "The request met an error of the broker, which is in the broker's log.")
    if status in PASSING:
        headers.setdefault("Retry-After", str(RETRY_AFTER_SECONDS))
    return status, told, headers
