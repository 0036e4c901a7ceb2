"""CPU time and memory of a local process, and the process that listens on a port (Linux)."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import NamedTuple

_LISTEN = "0A"


class ProcessUsage(NamedTuple):
    """CPU seconds of all threads since the start, and resident bytes."""

    cpu_seconds: float
    resident_bytes: int


def process_usage(pid: int) -> ProcessUsage | None:
    """Return the usage of a process; None if it does not exist, or without ``/proc``."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    return ProcessUsage((int(fields[11]) + int(fields[12])) / ticks, int(fields[21]) * page)


def listener_pid(host: str, port: int) -> int | None:
    """Return the process that listens on a local port, if ``host`` is local and ``/proc`` permits it."""
    try:
        address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0]
    except OSError:
        return None
    if not (str(address).startswith("127.") or address == "::1"):
        return None
    inodes = _listening(port)
    if not inodes:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        try:
            for fd in (process / "fd").iterdir():
                if os.readlink(fd) in inodes:
                    return int(process.name)
        except OSError:
            continue  # it ended, or belongs to another user
    return None


def _listening(port: int) -> set[str]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(f"socket:[{fields[9]}]")
    return found
