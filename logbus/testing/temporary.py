"""Temporary directories of the test kit."""

from __future__ import annotations

import tempfile
from pathlib import Path

from logbus.testing.broker_process import BrokerFailed


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
    try:
        return Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    except OSError as e:
        raise BrokerFailed(f"no temporary directory in {place}: {e.strerror}; set TMPDIR") from None
