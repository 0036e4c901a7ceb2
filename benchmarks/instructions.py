"""
Counts the instructions that a broker needs for a lone request, which no other load on the machine changes.

    python -m benchmarks.instructions [--requests 5000] [--python PYTHON] [--profiles DIRECTORY]

A broker runs under Valgrind's callgrind, which counts what it executes in user mode: not the kernel's part of system
calls. Its clock goes slowly, so that timers do not count more than they do without. It is warmed up, and then gets
requests one by one, from one connection. With ``--profiles`` the files of callgrind stay, for ``callgrind_annotate``.
Needed: ``valgrind`` and a C compiler.
"""

from __future__ import annotations

import argparse
import re
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from benchmarks.compare import wire
from benchmarks.compare.native_programs import compile_library
from benchmarks.compare.systems import Logbus, start

WARM_UP: Final = 500
SLOWER: Final = 50
"""Times as long that a request takes under callgrind."""
BATCHES: Final = 1999
RECORDS: Final = 4
"""Of a kilobyte, in each batch that is fetched."""
_TOTAL: Final = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)


@attrs.frozen
class Callgrind:
    """
    A broker under callgrind, which counts nothing yet.

    :ivar profiles: where callgrind's files go.
    :ivar clock: the library with the slow clock.
    """

    system: Logbus
    profiles: Path
    clock: Path

    @property
    def name(self) -> str:
        return self.system.name

    @property
    def brokers(self) -> int:
        return self.system.brokers

    def prepare(self, directory: Path, port: int, synced: bool | None) -> Sequence[str]:
        command = self.system.prepare(directory, port, synced)
        environment = ["env", f"LD_PRELOAD={self.clock}", f"BENCH_SLOW_CLOCK={SLOWER}"]
        output = f"--callgrind-out-file={self.profiles / 'callgrind.out'}"
        # Not the script alone, whose interpreter callgrind would not follow.
        python = [] if command[0] == self.system.python else [self.system.python]
        return [*environment, "valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", output, *python, *command]

    def topic_configs(self, synced: bool | None, acks: int) -> dict[str, str]:
        return self.system.topic_configs(synced, acks)


def control(pid: int, *options: str) -> None:
    """Tell callgrind something."""
    subprocess.run(["callgrind_control", *options, str(pid)], check=True, capture_output=True)


def counted(pid: int, profiles: Path, name: str, requests: Iterator[bytes], port: int, count: int) -> float:
    """Instructions for each of so many requests."""
    with socket.create_connection(("127.0.0.1", port)) as peer:
        answers = peer.makefile("rb")

        def send(number: int) -> None:
            for _ in range(number):
                peer.sendall(next(requests))
                answers.read(struct.unpack(">i", answers.read(4))[0])

        send(WARM_UP)
        control(pid, "--instr=on")
        send(WARM_UP)
        control(pid, "--zero")
        send(count)
        before = set(profiles.iterdir())
        control(pid, "--dump")
        control(pid, "--instr=off")
    (dump,) = set(profiles.iterdir()) - before
    profile = dump.rename(profiles / name.replace(" ", "-"))
    found = _TOTAL.findall(profile.read_text(errors="replace"))
    return int(found[-1]) / count


def produces(topic: str) -> Iterator[bytes]:
    """The same record of 100 B, again and again."""
    frame = wire.produce_request(topic, {0: wire.record_batch(1, 100)}, 1)
    while True:
        yield frame


def fetches(topic: str) -> Iterator[bytes]:
    """A batch each, in an order that is no consumer's: otherwise a thread would answer."""
    fetch = wire.fetch_request(topic, [0], partition_max_bytes=4096)
    at, number = fetch.entries_at + 8, 0
    while True:
        number = (number + 7) % BATCHES
        yield fetch.data[:at] + struct.pack(">q", number * RECORDS) + fetch.data[at + 8 :]


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument(
        "--python",
        default=sys.executable,
        help="the interpreter of the broker, of an environment that it is installed in",
    )
    parser.add_argument("--profiles", type=Path, help="where callgrind's files are to stay")
    options = parser.parse_args()
    build = "from logbus.interpreter import InterpreterBuild as Build; print(Build.running().name)"
    subprocess.run([options.python, "-c", build], check=True)
    with tempfile.TemporaryDirectory(prefix="logbus-instructions-") as name:
        profiles, clock = options.profiles or Path(name) / "profiles", Path(name) / "slow_clock.so"
        profiles.mkdir(parents=True, exist_ok=True)
        compile_library("slow_clock.c", clock)
        broker = Callgrind(Logbus(options.python), profiles, clock)
        running = start(broker, Path(name) / "broker", patience=240)
        try:
            admin = wire.Admin(running.port, timeout=60)
            for topic in ("produced", "fetched"):
                admin.create_topic(topic, 1, {})
            filling = wire.produce_request("fetched", {0: wire.record_batch(RECORDS, 1000)}, 1)
            for _ in range(BATCHES):
                admin.replay(filling)
            for cell, requests in (("lone produce", produces("produced")), ("lone fetch", fetches("fetched"))):
                count = counted(running.pid, profiles, cell, requests, running.port, options.requests)
                print(f"{cell:13} {count:9,.0f} instructions", flush=True)
        finally:
            # Its data goes with the directory, and an orderly end takes long by the slow clock.
            running.process.kill()
            running.process.wait()


if __name__ == "__main__":
    main()
