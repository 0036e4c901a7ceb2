"""Loaders of one Delta Lake table that work at the same time, and are killed: each offset is there once. No Spark."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyspark")
from logbus.pipeline.errors import ClaimLost
from logbus.pipeline.lake.delta_log import DeltaLog
from tests.pipeline.lake.test_delta_log import SCHEMA, killed_after, load, seen
from tests.pipeline.lake.test_delta_log import Killed as KilledInTest

BATCH = 6
_DONE, _LOST = 0, 3
_PATIENCE = 120.0


def work(directory: str, end: int, dies_after: int) -> None:
    """
    Be a loader, up to an offset.

    :param dies_after: so many operations that change something; −1: never.
    """
    log = DeltaLog(directory)
    status = _DONE
    with killed_after(dies_after if dies_after >= 0 else 10**9):
        try:
            log.claim(SCHEMA, ["page"])
            while (start := log.state.load.held("t", 0).end) < end:
                load(log, start, min(start + BATCH, end))
        except ClaimLost:
            status = _LOST
        except KilledInTest:
            os.kill(os.getpid(), signal.SIGKILL)
    os._exit(status)


def run(directory: Path, starts: int, chance: Random) -> tuple[int, int]:
    """
    Have two work at a time until so many have been started, and a last one finish.

    :returns: how many were killed, and how many ended because another had claimed the table.
    """
    context = multiprocessing.get_context("forkserver")  # Threads of delta-rs do not survive a plain fork.
    context.set_forkserver_preload([__name__])
    end, killed, lost = BATCH * (starts + 2), 0, 0
    running: list[Any] = []
    left = starts
    while left or running:
        while left and len(running) < 2:
            process = context.Process(target=work, args=(str(directory), end, chance.choice((-1, *range(2, 12)))))
            process.start()
            running.append(process)
            left -= 1
        process = running.pop(chance.randrange(len(running)))
        process.join(_PATIENCE)
        assert process.exitcode in (_DONE, _LOST, -signal.SIGKILL), process.exitcode
        killed += process.exitcode == -signal.SIGKILL
        lost += process.exitcode == _LOST
    last = context.Process(target=work, args=(str(directory), end, -1))
    last.start()
    last.join(_PATIENCE)
    assert last.exitcode == _DONE
    assert seen(directory) == list(range(0, end, 2))
    assert seen(directory / "_quarantine") == list(range(1, end, 2))
    return killed, lost


def test_two_at_once(tmp_path: Path) -> None:
    """Some."""
    run(tmp_path, 8, Random(3))


@pytest.mark.long
def test_two_at_once_many_times(tmp_path: Path) -> None:
    """A hundred: both things happen often."""
    killed, lost = run(tmp_path, 100, Random(5))
    assert killed > 5
    assert lost > 5
