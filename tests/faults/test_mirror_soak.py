"""Two clusters that mirror each other, under kills."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.mirror_soak import MirrorSoak

SECONDS = float(os.environ.get("LOGBUS_SOAK_SECONDS", "60"))


@pytest.mark.parametrize("with_kafka", [False, True], ids=["logbus", "kafka"])
def test_both_directions(tmp_path: Path, with_kafka: bool) -> None:
    """
    While brokers of both sides and mirrors are killed, each record is copied once and in order: the audit proves it.
    So it is from and to Apache Kafka.
    """
    with MirrorSoak(tmp_path, seed=1, with_kafka=with_kafka) as soak:
        soak.trouble(SECONDS)
        assert min(soak.prove()) > 0
        assert len(soak.injected) == 4
