"""A shell in an empty directory, in a network namespace where the default ports are free, for a page's examples."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from uuid import uuid4

from tests.docs.page_examples import Example, matches

_CLONE_NEWNET, _CLONE_NEWUSER = 0x40000000, 0x10000000
_SIOCSIFFLAGS, _UP_LOOPBACK_RUNNING = 0x8914, 0x49

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = [ROOT / "docs" / "howto" / name for name in ("line_protocol", "delete_policy")]
#: Seconds for a command that hangs; one that is slow, since the machine is busy, may be so.
TIMEOUT = 300.0
DEFAULT_PORTS = (8080, 9092)


def own_network() -> None:
    """Leave the machine's network for one with nothing but a loopback; runs in the child, before its program."""
    libc = ctypes.CDLL(None, use_errno=True)
    user = os.geteuid()
    if libc.unshare(_CLONE_NEWNET) != 0:
        if libc.unshare(_CLONE_NEWNET | _CLONE_NEWUSER) != 0:
            raise OSError(ctypes.get_errno(), "no network of one's own here")
        # Root there, so that the loopback may be brought up; on the outside the user it was.
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", _UP_LOOPBACK_RUNNING))


def has_own_network() -> bool:
    """Whether this machine lets us have one."""
    try:
        subprocess.run(["true"], preexec_fn=own_network, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def default_ports_are_free() -> bool:
    """Whether a broker could start here without options."""
    for port in DEFAULT_PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True


class Unexpected(AssertionError):
    """An example did not do what its page says."""


class Session:
    """
    One shell, from the first example of a page to its last.

    :ivar where: its directory.
    :param programs: where Python and logbus are.
    """

    def __init__(self, where: Path, isolated: bool, programs: Path) -> None:
        self.where = where
        # The checkout, as far as pages need it.
        # What other processes write there meanwhile may be gone when it is to be copied.
        passing = shutil.ignore_patterns("__pycache__", "*.cache", "*.new")
        for each in EXAMPLES:
            if not (copy := where / each.relative_to(ROOT)).exists():
                shutil.copytree(each, copy, ignore=passing)
        tools = where / ".tools"
        tools.mkdir()
        # logbus is installed already; test_fresh_clone and test_packaging install it as a reader would.
        (tools / "pip").write_text("#!/bin/sh\nexit 0\n")
        (tools / "pip").chmod(0o755)
        environment = {
            "HOME": str(where),
            "LANG": "C.UTF-8",
            "PATH": f"{tools}:{programs}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONUNBUFFERED": "1",
            # A reader has no such plugin, which each pytest here would import.
            "PYTEST_ADDOPTS": "-p no:schemathesis",
            # Spark would look for an address of the machine, and there may be no network.
            "SPARK_LOCAL_IP": "127.0.0.1",
            # Spark starts in half the processor time from the archive of its classes that tests/run has written there.
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
        }
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=where,
            env=environment,
            start_new_session=True,
            preexec_fn=own_network if isolated else None,  # noqa: PLW1509 - no thread was started yet that it would miss
        )
        self._behind: list[int] = []
        self._number = 0
        self._has_notebook = False

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        behind = list(self._behind)
        with contextlib.suppress(Exception):
            self.stop()  # What supervises others must have time to end them.
        for process in behind:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.communicate()
        # Daemons left both.
        for file in self.where.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(file.read_text()), signal.SIGKILL)

    def play(self, example: Example) -> None:
        """
        Do what an example says.

        :raise Unexpected: something else came out.
        """
        if example.how == "skip":
            return
        if example.caption:
            if example.caption.startswith("logbus/") and not (self.where / "logbus").exists():
                # A module that the page adds to ours: the package is a copy, and found before the installed one.
                shutil.copytree(ROOT / "logbus", self.where / "logbus", ignore=shutil.ignore_patterns("__pycache__"))
                self.shell(f"export PYTHONPATH={self.where}")
            (self.where / example.caption).parent.mkdir(parents=True, exist_ok=True)
            (self.where / example.caption).write_text(example.body)
        elif example.language == "python":
            self._number += 1
            script = self.where / f".example{self._number}.py"
            script.write_text(example.body)
            self._run(f"python {script}", None, example, fails=False)
        elif example.language == "pycon":
            self._type(example)
        elif example.language == "console":
            if example.how == "stops":
                self.stop()
            commands = example.commands
            for command in commands:
                if example.how == "background":
                    self._leave_running(command.line, command.output, example)
                else:
                    fails = example.how == "fails" and command is commands[-1]
                    self._run(command.line, command.output, example, fails=fails)

    def _type(self, example: Example) -> None:
        """Type an example into the notebook."""
        pipes = self.where / ".notebook"
        if not self._has_notebook:
            pipes.mkdir()
            for name in ("cells", "results"):
                os.mkfifo(pipes / name)
            interpreter = f"python {ROOT}/tests/docs/pycon_interpreter.py {pipes}"
            command = f"setsid {interpreter} >{self.where}/.output-notebook 2>&1 & echo $!"
            self._behind.append(int(self.shell(command)[1].split()[-1]))
            self._has_notebook = True
        cell = self.where / ".cell"
        cell.write_text(example.body)
        _, wrong = self.shell(f"cat {cell} >{pipes}/cells; cat {pipes}/results")
        if wrong:
            raise Unexpected(f"line {example.line}: {wrong}{self._logs()}")

    def stop(self) -> None:
        """Ctrl-C in the other terminals."""
        for process in self._behind:
            self.shell(f"kill {process}; wait {process} 2>/dev/null")
        self._behind.clear()

    def shell(self, command: str) -> tuple[int, str]:
        """Run a command in the shell: its status, and what it prints."""
        marker = uuid4().hex
        assert self._shell.stdin is not None and self._shell.stdout is not None
        self._shell.stdin.write(f"{{ {command}\n}} </dev/null\necho {marker} $?\n".encode())
        self._shell.stdin.flush()
        printed = b""
        deadline = time.monotonic() + TIMEOUT
        readable = select.poll()  # select() knows no descriptors from 1024 on, and other tests may have many open
        readable.register(self._shell.stdout, select.POLLIN)
        while marker.encode() not in printed or not printed.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not readable.poll(left * 1000):
                raise Unexpected(f"still running after {TIMEOUT:g} s:\n$ {command}\n{printed.decode()}")
            piece = os.read(self._shell.stdout.fileno(), 65536)
            if not piece:
                raise Unexpected(f"the shell ended:\n$ {command}\n{printed.decode()}")
            printed += piece
        text, _, status = printed.decode(errors="replace").rpartition(marker)
        return int(status), text

    def _run(self, command: str, expected: str | None, example: Example, *, fails: bool) -> None:
        status, printed = self.shell(command)
        said = f"line {example.line}: $ {command}\n{printed}"
        if bool(status) != fails:
            raise Unexpected(
                f"status {status}, {'a failure' if fails else 'success'} was expected\n{said}{self._logs()}"
            )
        if expected is not None and not matches(expected, printed):
            raise Unexpected(f"{said}-- was expected to print:\n{expected}")

    def _leave_running(self, command: str, expected: str | None, example: Example) -> None:
        self._number += 1
        log = self.where / f".output{self._number}"
        script = f"setsid bash -c {shlex.quote(_replacing_the_shell(command))} >{log} 2>&1 & echo $!"
        _, printed = self.shell(script)
        process = int(printed.split()[-1])
        self._behind.append(process)
        deadline = time.monotonic() + TIMEOUT
        while not matches(expected or "", log.read_text() if log.exists() else "", somewhere=True):
            ended = self.shell(f"kill -0 {process}")[0] != 0
            if ended or time.monotonic() > deadline:
                raise Unexpected(
                    f"line {example.line}: $ {command}\n{log.read_text()}-- was expected to say:\n{expected}"
                )
            time.sleep(0.05)

    def _logs(self) -> str:
        return "".join(f"\n-- {path.name}:\n{path.read_text()[-3000:]}" for path in sorted(self.where.glob(".output*")))


def _replacing_the_shell(command: str) -> str:
    """The last program of ``command`` takes the place of the shell, so that a signal reaches it."""
    *before, last = command.split(" && ")
    return " && ".join([*before, f"exec env {last}"])


@contextlib.contextmanager
def session(where: Path, isolated: bool, programs: Path | None = None) -> Iterator[Session]:
    """
    A session that is over in the end, whatever was left running.

    :param programs: where Python and logbus are; None: those of this process.
    """
    with Session(where, isolated, programs or Path(sys.executable).parent) as one:
        yield one
