"""Which directories are in use."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from logbus.errors import ConfigError
from logbus.workers.earlier_workers import LOCK_FILE, WAIT_SECONDS, holders, wait_for_earlier_workers


def test_holders(tmp_path: Path) -> None:
    """Only those that are locked, the machine's own and those of its workers."""
    first, second = tmp_path / ".lock", tmp_path / "workers" / "1" / ".lock"
    (tmp_path / "workers" / "2").mkdir(parents=True)
    second.parent.mkdir()
    first.write_text("12\n")
    second.write_text("13\n")
    assert list(holders([str(tmp_path), str(tmp_path / "none")])) == []
    with first.open() as one, second.open() as other:
        fcntl.flock(one, fcntl.LOCK_EX)
        assert list(holders([str(tmp_path)])) == [f"process 12 holds {first}"]
        fcntl.flock(other, fcntl.LOCK_EX)
        assert list(holders([str(tmp_path)])) == [f"process 12 holds {first}", f"process 13 holds {second}"]
    assert list(holders([str(tmp_path)])) == []


def test_waiting(tmp_path: Path) -> None:
    """Only after a supervisor that was killed; with one line, and not for ever."""
    now, said = [0.0], []
    lock = tmp_path / ".lock"
    lock.write_text("12\n")
    held = lock.open()
    fcntl.flock(held, fcntl.LOCK_EX)

    def wait(until: float) -> None:
        def sleep(seconds: float) -> None:
            now[0] += seconds
            if now[0] >= until:
                held.close()

        wait_for_earlier_workers([str(tmp_path)], said.append, seconds=lambda: now[0], sleep=sleep)

    supervisor = tmp_path / LOCK_FILE
    wait(1)
    supervisor.write_text("")
    wait(1)
    supervisor.write_text("11\n")
    with supervisor.open() as running:
        fcntl.flock(running, fcntl.LOCK_EX)
        wait(1)
    assert now == [0.0]
    with pytest.raises(ConfigError, match="kill them, and start again: process 12 holds "):
        wait(2 * WAIT_SECONDS)
    wait(now[0] + 1)
    assert said == [f"waiting for workers of a supervisor that was killed: process 12 holds {lock}"] * 2
