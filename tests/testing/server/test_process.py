"""``logbus test-server`` as a process: its start, and the ways it ends."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logbus.testing.cluster_roles import known_brokers
from logbus.testing.waiting import wait_until
from tests.testing.server.processes import LOGBUS, addresses, environment, is_gone, send

PIPE, NULL = subprocess.PIPE, subprocess.DEVNULL


def by_signal(process: subprocess.Popen[bytes], told: dict[str, Any]) -> None:
    process.send_signal(signal.SIGTERM)


def by_ctrl_c(process: subprocess.Popen[bytes], told: dict[str, Any]) -> None:
    process.send_signal(signal.SIGINT)


def by_end_of_input(process: subprocess.Popen[bytes], told: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None  # communicate() would flush it


def by_request(process: subprocess.Popen[bytes], told: dict[str, Any]) -> None:
    assert send(told, "POST", "/server/shutdown") == (202, {"pid": process.pid})


@pytest.mark.parametrize("end", [by_signal, by_ctrl_c, by_end_of_input, by_request])
def test_end(end: Callable[[subprocess.Popen[bytes], dict[str, Any]], None], tmp_path: Path) -> None:
    """It serves, says where, and leaves nothing when it ends; the status says that all was well."""
    file, home = tmp_path / "server.json", tmp_path / "home"
    home.mkdir()
    command = [*LOGBUS, "--port-file", str(file)]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment(home)) as process:
        told = addresses(file, process)
        assert known_brokers(told["bootstrap"]) == 1
        assert told["pid"] == process.pid
        assert len(list(home.iterdir())) == 1
        end(process, told)
        output, errors = process.communicate()
    assert (process.returncode, output, errors) == (0, b"", b"")
    assert not file.exists()
    assert not list(home.iterdir())


def test_end_of_parent(tmp_path: Path) -> None:
    """It ends when its parent is killed, without a pipe between them, and removes its data."""
    file, home = tmp_path / "server.json", tmp_path / "home"
    home.mkdir()
    # The shell becomes another program, whose child the server is.
    program = '"$@" & exec sleep 3600'
    command = ["sh", "-c", program, "sh", *LOGBUS, "--port-file", str(file)]
    with subprocess.Popen(command, stdin=NULL, stdout=PIPE, stderr=PIPE, env=environment(home)) as parent:
        told = addresses(file, parent)
        parent.kill()
        # These come to their ends when the server has closed its own.
        assert parent.communicate() == (b"", b"")
    wait_until(lambda: is_gone(told["pid"]), "the end of the server")
    assert not file.exists()
    assert not list(home.iterdir())


def test_killed(tmp_path: Path) -> None:
    """The brokers of a server that is killed end, too."""
    file = tmp_path / "server.json"
    command = [*LOGBUS, "--port-file", str(file), "--own-process"]
    with subprocess.Popen(command, stdin=PIPE, env=environment(tmp_path)) as process:
        addresses(file, process)
        tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
        children = [int(pid) for task in tasks for pid in task.read_text().split()]
        assert len(children) == 1
        process.kill()
    wait_until(lambda: is_gone(children[0]), "the end of the broker")


def test_detached(tmp_path: Path) -> None:
    """With --detached it outlives its parent; without --port-file its output says where it is."""
    program = '"$@" & exec head -c 1'
    command = ["sh", "-c", program, "sh", *LOGBUS, "--detached"]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment(tmp_path)) as parent:
        assert parent.stdout is not None and parent.stdin is not None
        told = json.loads(parent.stdout.readline())
        parent.stdin.close()
        parent.stdin = None  # communicate() would flush it
        parent.wait()
        assert known_brokers(told["bootstrap"]) == 1
        assert send(told, "POST", "/server/shutdown")[0] == 202
        parent.communicate()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["num.partition=3"], "--set: num.partition is not a broker configuration key; did you mean num.partitions?"),
        (["num.partitions=many"], "--set: num.partitions: 'many' is not valid; accepted: a whole number from 1 to "),
        (["log.dirs=/tmp"], "--set log.dirs: is not for a test server: the data is in a temporary directory"),
        (["broker.id=7"], "--set broker.id: is not for a test server: brokers are numbered from 0"),
    ],
)
def test_settings(arguments: list[str], error: str, tmp_path: Path) -> None:
    """A setting that cannot be is one line, which the port file has as well."""
    file = tmp_path / "server.json"
    command = [*LOGBUS, "--port-file", str(file)]
    for each in arguments:
        command += ["--set", each]
    # If one were accepted, the server would end with its standard input.
    done = subprocess.run(command, input="", capture_output=True, text=True, env=environment(tmp_path), check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"logbus: {error}")
    assert done.stderr.count("\n") == 1
    told = json.loads(file.read_text())
    assert f"logbus: {told['error']}\n" == done.stderr
    assert "bootstrap" not in told


def test_port_file_in_use(tmp_path: Path) -> None:
    """A port file that exists is refused at once."""
    file = tmp_path / "server.json"
    file.write_text("{}")
    command = [*LOGBUS, "--port-file", str(file)]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    hint = "exists already; remove it if its server has ended, or name another file"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"logbus: --port-file {file}: {hint}\n")
    assert file.read_text() == "{}"
