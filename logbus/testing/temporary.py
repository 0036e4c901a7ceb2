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
        return Path(tempfile.mkdtemp(prefix=prefix))
    except FileNotFoundError as e:
        raise BrokerFailed(f"no temporary directory: {e.args[-1]}; set TMPDIR") from None
    except OSError as e:
        raise BrokerFailed(f"no temporary directory in {tempfile.gettempdir()}: {e.strerror}; set TMPDIR") from None
