"""
Runs commands of ``logbus`` as processes.

Hundreds of commands run in these tests, and most of the time of each would go into imports. So they are forked from a
process that has imported what commands need; arguments, environment, pipes and status are those of any process. That a
command imports what it needs by itself is for ``test_command_imports`` and for :func:`start`, whose processes are new
ones.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

COMMAND = [sys.executable, "-c", "from logbus.cli import main; main()"]

PATIENCE = 300
"""Seconds for a command that hangs; one that is slow, since the machine is busy, may be so."""

MOST = 1 << 17
"""Bytes of a command's arguments and environment, as JSON."""

PRELOADED = ("logbus.cli.runner", "logbus.client", "twisted.internet.epollreactor", "twisted.internet.endpoints")
"""Beside the commands' own modules. Nothing of it installs a reactor or starts a thread."""


def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """A command in a new process, which goes on while the test does."""
    pipe = subprocess.PIPE
    return subprocess.Popen([*COMMAND, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, **options)


class Result:
    """The result of a command."""

    def __init__(self, status: int, out: bytes, err: bytes) -> None:
        self.status, self.out, self.err = status, out.decode(), err.decode()


def run(*arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Result:
    """
    Run a command to its end.

    :param env: its environment; None: that of this process.
    """
    wish = {"arguments": arguments, "environment": dict(os.environ if env is None else env), "directory": os.getcwd()}
    told, theirs = socket.socketpair()
    (their_in, our_in), (our_out, their_out), (our_err, their_err) = os.pipe(), os.pipe(), os.pipe()
    ends = [their_in, their_out, their_err, theirs.detach()]
    try:
        socket.send_fds(_fork_server(), [json.dumps(wish).encode()], ends)
    finally:
        for end in ends:
            os.close(end)
    with told, ThreadPoolExecutor(3) as threads:
        told.settimeout(PATIENCE)
        lines = told.makefile("r")
        pid = int(lines.readline())
        out, err = threads.submit(_read, our_out), threads.submit(_read, our_err)
        threads.submit(_write, our_in, stdin)
        try:
            status = int(lines.readline())
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise
        return Result(status, out.result(), err.result())


def _read(pipe: int) -> bytes:
    with open(pipe, "rb") as file:
        return file.read()


def _write(pipe: int, data: bytes) -> None:
    # A command need not read what it is given.
    with suppress(BrokenPipeError), open(pipe, "wb") as file:
        file.write(data)


@cache
def _fork_server() -> socket.socket:
    """The socket of the process that forks; that ends when this one does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MOST)
    program = f"from tests.cli.command_line import serve; raise SystemExit(serve({theirs.fileno()}))"
    with theirs:
        # Its text streams are made for pipes, which those of most commands are.
        pipe = subprocess.PIPE
        process = subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, pass_fds=[theirs.fileno()])

    def end() -> None:
        ours.close()
        process.communicate()

    atexit.register(end)
    return ours


# In the process that forks, and those that it forks.


def serve(descriptor: int) -> int:
    """Fork commands until nobody can ask for more; in a command's process, run it and return its status."""
    import logbus.cli.commands

    for each in iter_modules(logbus.cli.commands.__path__, "logbus.cli.commands."):
        import_module(each.name)
    for name in PRELOADED:
        import_module(name)
    assert "twisted.internet.reactor" not in sys.modules, "a command chooses its reactor itself"
    gc.collect()
    gc.freeze()
    # Who waits for a command is not waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    while True:
        data, ends, _, _ = socket.recv_fds(control, MOST, 4)
        if not data:
            return 0
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _become(json.loads(data), ends)
        for end in ends:
            os.close(end)


def _become(wish: dict[str, Any], ends: list[int]) -> int:
    """Fork the command and tell its status; returns, in its process, what it returns."""
    *streams, told = ends
    pid = os.fork()
    if pid:
        for end in streams:
            os.close(end)
        with socket.socket(fileno=told) as line:
            line.sendall(b"%d\n" % pid)
            line.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        os._exit(0)
    os.close(told)
    for number, end in enumerate(streams):
        os.dup2(end, number)
        os.close(end)
    os.chdir(wish["directory"])
    os.environ.clear()
    os.environ.update(wish["environment"])
    sys.argv[1:] = wish["arguments"]
    from logbus.cli.app import run_app

    return run_app()
