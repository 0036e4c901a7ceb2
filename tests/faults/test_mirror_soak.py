"""Two clusters that mirror each other, under kills."""

from __future__ import annotations

import os
from pathlib import Path

from tests.faults.mirror_soak import MirrorSoak

SECONDS = float(os.environ.get("LOGBUS_SOAK_SECONDS", "60"))


def test_both_directions(tmp_path: Path) -> None:
    """
    While brokers of both sides and mirrors are killed, each record is copied once and in order: the audit proves it.
    """
    with MirrorSoak(tmp_path, seed=1) as soak:
        soak.trouble(SECONDS)
        assert min(soak.prove()) > 0
        assert soak.injected.total() >= 3
