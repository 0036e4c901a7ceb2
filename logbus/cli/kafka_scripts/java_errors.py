"""Errors as Kafka's tools print them: by the name of their class in Java. Pure."""

from __future__ import annotations

from logbus.errors import ApiError, ErrorCode

PACKAGE = "org.apache.kafka.common.errors"

_NAMES = {
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmpty",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "NotLeaderOrFollower",
    ErrorCode.REQUEST_TIMED_OUT: "Timeout",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExists",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopic",
    ErrorCode.INVALID_CONFIG: "InvalidConfiguration",
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServer",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "TransactionalIdNotFound",
}
"""Those that are not the words of the code."""


def java_name(error: ApiError) -> str:
    """The class of an error, with its package."""
    words = "".join(word.capitalize() for word in error.code.name.split("_"))
    name = _NAMES.get(error.code, words.removesuffix("Exception").removesuffix("Error"))
    return f"{PACKAGE}.{name}Exception"


def java_text(error: ApiError, subject: str = "") -> str:
    """
    The class and the message of an error.

    :param subject: what the client put before the broker's message.
    """
    return f"{java_name(error)}: {broker_text(error, subject)}"


def broker_text(error: ApiError, subject: str = "") -> str:
    """
    The message of a broker in an error, or the sentence for its code.

    :param subject: what the client put before it.
    """
    text = error.message.removeprefix(f"{subject}: ") if subject else error.message
    return text.removesuffix(f" ({error.code.name})")
