"""
The test suites of other projects, as these publish them.

They are fetched once, by the ordinary tools of their languages, into a cache; ``LOGBUS_CLIENT_SUITES`` names another
directory, in which a suite may be put by hand (``aiokafka-0.14.0``, a checkout).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.tar_archives import unpack

CACHE = Path(os.environ.get("LOGBUS_CLIENT_SUITES", "~/.cache/logbus-client-suites")).expanduser()
SECONDS = 120


def _fetched(name: str, fetch: Callable[[Path], str | None]) -> Path:
    """
    The directory of a suite; it is fetched if it is not there.

    :param fetch: puts the suite into a directory; returns why it could not, or None.
    """
    place = CACHE / name
    if not place.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        fresh = CACHE / f".{name}.{os.getpid()}"
        problem = fetch(fresh)
        if problem is not None:
            shutil.rmtree(fresh, ignore_errors=True)
            pytest.skip(f"{name} cannot be fetched; put it into {place}: {problem}")
        try:
            fresh.rename(place)
        except OSError:
            # Another process was faster.
            shutil.rmtree(fresh)
    return place


def _problem(*command: str, cwd: Path | None = None) -> str | None:
    """Run a command; what it said last if it failed."""
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        return str(e)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or [str(done.returncode)])[-1]


def aiokafka() -> Path:
    """The checkout of the version that is installed: its source distribution has no tests."""
    name = f"aiokafka-{version('aiokafka')}"
    address = "https://github.com/aio-libs/aiokafka.git"
    tag = f"v{version('aiokafka')}"
    return _fetched(name, lambda fresh: _problem("git", "clone", "-q", "--depth=1", "-b", tag, address, str(fresh)))


def kafka_python() -> Path:
    """The source distribution of the version that is installed."""
    release = version("kafka-python")

    def fetch(fresh: Path) -> str | None:
        wanted = ["--no-deps", "--no-binary", "kafka-python", "-d", str(fresh), f"kafka-python=={release}"]
        problem = _problem(sys.executable, "-m", "pip", "download", "-q", *wanted)
        if problem is None:
            (archive,) = fresh.glob("*.tar.gz")
            unpack(archive, fresh)
            (unpacked,) = fresh.glob("kafka_python-*/")
            shutil.move(unpacked / "test", fresh / "test")
            shutil.rmtree(unpacked)
        return problem

    return _fetched(f"kafka-python-{release}", fetch)


def franz_go(release: str) -> Path:
    """The module of a release, in Go's own cache."""
    done = subprocess.run(
        ["go", "mod", "download", "-json", f"github.com/twmb/franz-go@{release}"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"franz-go cannot be fetched: {done.stdout.strip()[-300:]}")
    return Path(json.loads(done.stdout)["Dir"])
