"""Says what is missing: a right (whose, which operation, on what, and at which side), or transactions. Pure."""

from __future__ import annotations

from typing import Protocol

from logbus.errors import ApiError, ErrorCode
from logbus.mirror.mirror_options import MirrorOptions


class _Known(Protocol):
    @property
    def principal(self) -> str:
        """The principal of the client."""


def lacks(cluster: _Known, operation: str, resource: str, where: str) -> str:
    """
    Such as ``User:mirror lacks READ on topic orders at the source paris``.

    :param where: the side, with its name.
    """
    return f"{cluster.principal} lacks {operation} on {resource} at {where}"


def what_session_lacks(error: Exception, options: MirrorOptions, target: _Known) -> str | None:
    """The right at the target, or the transactions, for lack of which a session ended; None: it had another error."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ApiError):
        cause = cause.__cause__
    if cause is None:
        return None
    where = f"the target {options.target}"
    if cause.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return lacks(target, "WRITE", f"transactional id {options.transactional_id}", where)
    if cause.code is ErrorCode.UNSUPPORTED_VERSION and "InitProducerId" in str(cause):
        return f"{where} has no transactions, which a mirror writes in: Kafka has them since 0.11 ({cause})"
    syncs = options.policy.offset_syncs_topic
    if cause.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED and syncs in str(cause):
        return lacks(target, "CREATE, WRITE, READ and DESCRIBE, or one of them,", f"topic {syncs}", where)
    return None
