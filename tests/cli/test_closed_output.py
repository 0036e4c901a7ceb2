"""Tests of ``logbus`` where standard input, output or error was closed before it started: Python has None there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.app import run_app
from logbus.testing import Broker

SECONDS = 60


class ClosedOutputTests(SynchronousTestCase):
    def test_standard_output(self) -> None:
        """What would be printed is lost, as it was asked for."""
        with patch.object(sys, "stdout", None):
            self.assertEqual(run_app(["--version"]), 0)

    def test_standard_error(self) -> None:
        """An error is told by the status."""
        with patch.object(sys, "stderr", None), patch.object(sys, "stdout", None):
            self.assertEqual(run_app(["dump-log", "/nowhere"]), 2)


def test_nobody_reads_the_help() -> None:
    """The process ends by SIGPIPE, as that of a command does."""
    reading, writing = os.pipe()
    os.close(reading)
    logbus = Path(sys.executable).with_name("logbus")
    for arguments in (["--help"], ["topics", "--help"]):
        done = subprocess.run(
            [logbus, *arguments], stdout=writing, stderr=subprocess.PIPE, check=False, timeout=SECONDS
        )
        assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")
    os.close(writing)


def test_full_standard_output() -> None:
    """The one line of error says where nothing could be written, and the status that; Python adds no traceback."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    for start, error in (
        ("from logbus.cli import main; main()", b"logbus: standard output: No space left on device\n"),
        (
            "from logbus.cli.kafka_scripts.__main__ import main; raise SystemExit(main(['kafka-topics', '--version']))",
            b"[Errno 28] No space left on device: 'standard output'\n",
        ),
    ):
        with open("/dev/full", "wb") as full:
            command = [sys.executable, "-c", start, "--version"]
            done = subprocess.run(
                command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=SECONDS, env=environment
            )
        assert (done.returncode, done.stderr) == (1, error)


def test_findings_that_cannot_be_told(tmp_path: Path) -> None:
    """That nobody reads what ``logbus verify`` finds, or it cannot be written, is no fault of the directory."""
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").touch()
    (tmp_path / "t-1.0123456789abcdef0123456789abcdef-delete").mkdir()
    reading, closed = os.pipe()
    os.close(reading)
    full = os.open("/dev/full", os.O_WRONLY)
    logbus = Path(sys.executable).with_name("logbus")
    for output, expected in (
        (closed, (-signal.SIGPIPE, b"")),
        (full, (1, b"logbus: standard output: No space left on device\n")),
    ):
        done = subprocess.run(
            [logbus, "verify", tmp_path], stdout=output, stderr=subprocess.PIPE, check=False, timeout=SECONDS
        )
        os.close(output)
        assert (done.returncode, done.stderr) == expected


def test_characters_that_the_locale_lacks() -> None:
    """Text is printed in UTF-8, as records are, whatever the locale; bytes that are none are escaped."""
    name = "größe€".encode() + b"\xff"
    script = "import sys; from logbus.cli.standard_streams import set_up_output; set_up_output(); print(sys.argv[1])"
    for encoding in ("ascii", "latin-1", "utf-8"):
        done = subprocess.run(
            [sys.executable, "-c", script, name],
            capture_output=True,
            check=False,
            timeout=SECONDS,
            env={**os.environ, "PYTHONIOENCODING": encoding},
        )
        assert (done.returncode, done.stdout) == (0, "größe€\\udcff\n".encode()), done.stderr


def test_closed_standard_input(broker: Broker) -> None:
    """What is to be read from there cannot be, and that is said; what is closed besides does not matter."""
    logbus = Path(sys.executable).with_name("logbus")
    create = f"{logbus} topics create closed -b {broker.bootstrap} >&- 2>&-"
    subprocess.run(["sh", "-c", create], check=True, timeout=SECONDS)
    produce = f"{logbus} produce closed -b {broker.bootstrap} <&-"
    done = subprocess.run(["sh", "-c", produce], capture_output=True, text=True, check=False, timeout=SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "logbus: standard input: Bad file descriptor\n")
    consume = f"{logbus} consume closed --from-beginning -e -b {broker.bootstrap} >&-"
    done = subprocess.run(["sh", "-c", consume], capture_output=True, text=True, check=False, timeout=SECONDS)
    assert (done.returncode, done.stderr) == (0, "")
