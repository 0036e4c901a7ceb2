"""Errors that memberships get: signs that a coordinator is gone, and messages with advice for those that end it."""

from __future__ import annotations

from logbus.client.membership.interface import MembershipFailed
from logbus.errors import ErrorCode

ELSEWHERE = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""Errors of a broker that is not the group's coordinator (any more)."""

_ADVICE = {
    ErrorCode.FENCED_INSTANCE_ID: "another consumer uses group_instance_id {instance!r} now: give each its own",
    ErrorCode.UNRELEASED_INSTANCE_ID: "another consumer uses group_instance_id {instance!r}: stop it, or wait until "
    "its session has ended",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "its members do not agree on an assignor, or are no consumers: "
    "all need one of assignors in common",
    ErrorCode.INVALID_SESSION_TIMEOUT: "session_timeout must be between the broker's group.min.session.timeout.ms and "
    "group.max.session.timeout.ms",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "it has as many members as the broker allows: raise group.max.size there, "
    "or run fewer consumers",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "this client may not read in it",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "this client may not read a topic it subscribed to",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "the broker does not have the assignor that group_remote_assignor names",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "the pattern is no regular expression as RE2 spells them",
    ErrorCode.UNSUPPORTED_VERSION: "the broker does not speak this protocol: set group_protocol to 'classic'",
    ErrorCode.GROUP_ID_NOT_FOUND: "its members speak the other protocol: set group_protocol as they have it",
}


def membership_failure(
    code: ErrorCode, group_id: str, group_instance_id: str | None = None, said: str | None = None
) -> MembershipFailed:
    """
    The error for a code that retrying does not help.

    :param said: the message of the broker's error; left out if there is advice.
    """
    group, name = f"group {group_id!r}: ", f" ({code.name})"
    advice = _ADVICE.get(code)
    if advice is not None:
        why = advice.format(instance=group_instance_id)
    else:
        why = (said or code.sentence).removeprefix(group).removesuffix(name)
    return MembershipFailed(code, f"{group}{why}{name}")
