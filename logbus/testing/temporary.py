"""Temporary directories of the test kit."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from logbus.testing.broker_process import BrokerFailed

LEAST_ROOM = 1 << 20
"""Bytes without which a broker would not start; it would wait for room."""


def temporary_directory(prefix: str) -> Path:
    """
    A new, empty one.

    :raise BrokerFailed: there can be none; names the place and the reason.
    """
    try:
        place = tempfile.gettempdir()
    except OSError as e:
        # None of the usual ones can be written: full, read-only or missing.
        raise BrokerFailed(f"no temporary directory: {e.strerror}; set TMPDIR") from None
    with suppress(OSError):
        total, _, left = shutil.disk_usage(place)
        # A file system that holds no files, such as /proc, has no size at all.
        if total and left < LEAST_ROOM:
            raise BrokerFailed(f"{place} has room for {left >> 10} KiB, too little for a broker: set TMPDIR")
    try:
        return Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    except OSError as e:
        raise BrokerFailed(f"no temporary directory in {place}: {e.strerror}; set TMPDIR") from None
