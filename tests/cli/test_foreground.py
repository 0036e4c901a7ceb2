"""Tests of :mod:`logbus.cli.foreground`: ``logbus start``."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from logbus import __version__
from logbus.cli.foreground import address, greet
from logbus.config import ConfigView
from logbus.ilogbus import Listener
from logbus.listener_config import resolve_listeners
from tests.cli.command_line import run

SECONDS = 300
# A shell starts what it does not wait for with SIGINT ignored, and so would be what the tests start.
HEARS_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
LOGBUS = [sys.executable, "-c", f"{HEARS_CTRL_C}; from logbus.cli import main; main()", "start"]


def test_version() -> None:
    """It is that of logbus, not Twisted's."""
    assert run("start", "--version").out == f"logbus {__version__}\n"


def test_on_a_terminal(tmp_path: Path) -> None:
    """The first lines say where clients connect and where the data is; Ctrl-C stops the broker in order."""
    ours, theirs = pty.openpty()
    command = [*LOGBUS, "--port", "0", "--admin-port", "0", "--data", "here"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        try:
            with closing(open(ours, "rb", buffering=0)) as terminal:
                said = b""
                while not re.search(rb"logbus broker 0 ready: kafka=127.0.0.1:\d+ admin=127.0.0.1:\d+\r\n", said):
                    read = terminal.read(4096)
                    assert read, said
                    said += read
                first = said.decode().splitlines()[:5]
                process.send_signal(signal.SIGINT)
                while True:
                    try:
                        if not terminal.read(4096):
                            break
                    except OSError:  # Linux says so when the other end is closed
                        break
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()
    assert first[1:] == [
        "  Kafka  127.0.0.1, a free port: the log says which",
        "  HTTP   http://127.0.0.1, a free port: the log says which",
        f"  Data   {tmp_path}/here",
        "  Ctrl-C stops the broker.",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here"], "a pid file was left"
    assert (tmp_path / "here" / ".logbus_cleanshutdown").exists()


def test_wrong_option(tmp_path: Path) -> None:
    """A mistyped option is one line, as with twistd, and nothing is made."""
    done = subprocess.run(
        [*LOGBUS, "--workres", "2"], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "logbus: there is no option --workres; did you mean --workers?\n"
    assert not list(tmp_path.iterdir())


def test_help(tmp_path: Path) -> None:
    """The help has the command's own name, and the width of the terminal."""
    done = subprocess.run(
        [*LOGBUS, "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=os.environ | {"COLUMNS": "60"},
    )
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: logbus start [options]\n")
    assert "--admin-port=" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 60


def test_addresses() -> None:
    """Endpoints are said as clients write them."""
    for listener, text in (
        (Listener("kafka", "kafka", "tcp:9092:interface=10.0.0.1"), "10.0.0.1:9092"),
        (Listener("kafka", "kafka", "tcp:9092"), "*:9092"),
        (Listener("kafka", "kafka", r"tcp:9092:interface=\:\:1"), "[::1]:9092"),
        (Listener("admin", "admin", "tcp:8080:interface=", security_protocol="SSL"), "https://*:8080"),
        (Listener("kafka", "kafka", "unix:/run/logbus"), "unix:/run/logbus"),
    ):
        assert address(listener) == text


def test_greeting() -> None:
    """All Kafka and HTTP listeners are there, and all directories."""
    config = ConfigView.load({"listeners": "PLAINTEXT://:1,SSL://h:2", "admin.listeners": "http://:3"})
    said = io.StringIO()
    greet(said, resolve_listeners(["lines:tcp:4"], (), config), ["/x", "/y"])
    lines = said.getvalue().splitlines()[1:]
    expected = ["  Kafka  *:1", "  Kafka  h:2", "  HTTP   http://*:3", "  Data   /x", "  Data   /y"]
    assert lines[:5] == expected
