"""A broker started with ``twistd`` and given options, as an operator starts it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def running(directory: Path, *options: str) -> Iterator[str]:
    """A broker with these options; its address for clients."""
    with running_process(directory, *options) as (_, address):
        yield address


@contextmanager
def running_process(directory: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The same with its process, whose output may be read further."""
    command = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile=", "logbus"]
    admin = ["--listen", "admin:tcp:0:interface=127.0.0.1"]
    process = subprocess.Popen(
        [*command, *options, *admin, "--data-dir", str(directory / "data")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            found = re.search(r"logbus broker 0 ready: kafka=(\S+)", line)
            if found:
                yield process, found[1]
                break
        else:
            pytest.fail("the broker did not start")
    finally:
        process.terminate()
        process.stdout.read()
        process.wait(20)
        process.stdout.close()
