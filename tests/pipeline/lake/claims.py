"""Checks that a store makes a version of a Delta Lake table once."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from logbus.pipeline.lake.delta_log import DeltaLog

CLAIMS, JOBS = 5, 4


def check_claims(url: str, options: Mapping[str, str] | None = None) -> None:
    """Have jobs claim a table at the same moment: no two get the same number."""
    from tests.pipeline.lake.test_delta_log import SCHEMA

    given = options or {}
    DeltaLog(url, given).claim(SCHEMA)

    def job(_: int) -> list[int]:
        log = DeltaLog(url, given)
        found = []
        for _ in range(CLAIMS):
            log.claim()
            found.append(log.claimed)
        return found

    with ThreadPoolExecutor(JOBS) as pool:
        numbers = [number for found in pool.map(job, range(JOBS)) for number in found]
    assert len(set(numbers)) == JOBS * CLAIMS
