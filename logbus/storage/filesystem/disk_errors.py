"""The errors of system calls that may pass, and after which a log directory stays in use. Pure."""

from __future__ import annotations

import errno

from logbus.errors import ApiError, ErrorCode

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})


class NoSpace(ApiError):
    """An operation failed for lack of space; a retry may succeed later."""


def refusal(error: OSError, what: str) -> ApiError | None:
    """The ApiError for an ``error`` that may pass: no space, or no file descriptor; None for others."""
    if error.errno in _NO_SPACE:
        return NoSpace(ErrorCode.KAFKA_STORAGE_ERROR, f"no space to {what}: {error.strerror}")
    if error.errno in _NO_DESCRIPTOR:
        return ApiError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"cannot {what}: {error.strerror}; raise the limit on open files (ulimit -n)"
        )
    return None


def no_thread(error: Exception) -> ApiError:
    """The ApiError for work that cannot begin, since the process has too many threads, or descriptors."""
    return ApiError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"no thread for the disk: {error}; raise the limits on threads (pids.max, ulimit -u) and on open files",
    )
