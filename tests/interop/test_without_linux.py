"""logbus needs nothing that only Linux has: what Python has there alone is taken away from these processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent / "without_linux"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE), "LOGBUS_PURE": "1", "LOGBUS_DEBUG": "1"}
LOGBUS = [str(Path(sys.executable).with_name("logbus"))]


def run(*words: str, cwd: Path, statuses: tuple[int, ...] = (0,)) -> str:
    """What a process prints that ends with one of these statuses."""
    done = subprocess.run(
        words,
        check=False,
        cwd=cwd,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert done.returncode in statuses, done.stdout
    return done.stdout


@contextmanager
def started(cwd: Path, *options: str) -> Iterator[tuple[str, str]]:
    """The addresses of a broker of ``logbus start``, Kafka's and HTTP's."""
    words = [*LOGBUS, "start", "--data-dir", "data", "--port", "0", "--admin-port", "0", *options]
    with subprocess.Popen(
        words, cwd=cwd, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as broker:
        assert broker.stdout is not None
        lines = []
        try:
            for line in broker.stdout:
                lines.append(line)
                if ready := re.search(r"ready: kafka=(\S+) admin=(\S+)", line):
                    break
            else:
                raise AssertionError("".join(lines))
            yield ready[1], ready[2]
        finally:
            broker.terminate()
            rest = broker.stdout.read()
        assert "Traceback" not in rest, rest
    assert broker.returncode == 0


def test_fixture(tmp_path: Path) -> None:
    """A broker in a test's process."""
    assert run(sys.executable, str(HERE / "fixture.py"), str(tmp_path / "data"), cwd=tmp_path).endswith("done\n")


def test_commands(tmp_path: Path) -> None:
    """A broker of its own, a backup, and what the doctor says."""
    with started(tmp_path) as (kafka, admin):
        run(*LOGBUS, "topics", "create", "orders", "--bootstrap", kafka, cwd=tmp_path)
        run(*LOGBUS, "backup", "copy", "--admin", admin, cwd=tmp_path)
    assert "no findings" in run(*LOGBUS, "verify", "copy", cwd=tmp_path)
    # This machine may be at some risk.
    assert "0 broken" in run(*LOGBUS, "doctor", cwd=tmp_path, statuses=(0, 1))


def test_workers(tmp_path: Path) -> None:
    """They share a port as only Linux lets them: refused, and one process where their number is automatic."""
    words = [*LOGBUS, "start", "--data-dir", "data", "--port", "0", "--admin-port", "0", "--workers", "2"]
    done = subprocess.run(
        words, check=False, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert "workers = 2: workers share a port as only Linux lets them" in done.stdout + done.stderr
    with started(tmp_path, "--workers", "auto"):
        pass
