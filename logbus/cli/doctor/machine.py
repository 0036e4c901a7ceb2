"""
Facts about this machine and the log directories on it, and what to say of them.
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from logbus.cli.doctor.finding import Finding, Weight
from logbus.config import ConfigView, keys
from logbus.errors import ConfigError
from logbus.interpreter import InterpreterBuild, advice
from logbus.preflight import try_directory
from logbus.processors import processors
from logbus.storage.filesystem.file_systems import type_of

FEW_DESCRIPTORS = 10_000
FEW_INODES = 10_000
HIGH_SWAPPINESS = 10
MANY_CORES = 4

_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs"})

_UNSYNCHRONISED = 0x40
"""STA_UNSYNC of adjtimex(2)."""


@frozen
class MachineFacts:
    """
    This machine.

    :ivar build: of the interpreter; ``is_compiled``: whether the compiled modules of logbus are in use.
    :ivar descriptors: files that a process of this user may have open; None: no limit.
    :ivar swappiness: ``vm.swappiness``, if the machine has swap; None: it has none, or this is not known.
    :ivar is_clock_kept: whether something keeps the clock; None: not known.
    """

    build: InterpreterBuild
    is_compiled: bool
    cores: int
    descriptors: int | None
    swappiness: int | None
    is_clock_kept: bool | None


@frozen
class DirectoryFacts:
    """
    A log directory.

    :ivar problem: why a broker could not use it; None: it could, or one runs on it.
    :ivar device: of its file system; ``file_system``: its type, if known.
    :ivar used_ratio: the share in use, from 0 to 1.
    :ivar free_inodes: how many more files there may be; None: any number.
    """

    path: str
    problem: str | None
    device: int
    file_system: str | None
    used_ratio: float
    free_inodes: int | None


def machine_facts() -> MachineFacts:
    """Look at this machine."""
    from logbus.compiled import IS_USED
    from logbus.records.implementations import IS_COMPILED

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MachineFacts(
        InterpreterBuild.running(),
        IS_USED and IS_COMPILED,
        processors(),
        None if hard == resource.RLIM_INFINITY else hard,
        _swappiness(),
        _is_clock_kept(),
    )


def _swappiness() -> int | None:
    try:
        if len(Path("/proc/swaps").read_text().splitlines()) < 2:
            return None
        return int(Path("/proc/sys/vm/swappiness").read_text())
    except (OSError, ValueError):
        return None


def _is_clock_kept() -> bool | None:
    # struct timex has an int, and three longs before its int of status; it is 208 bytes long.
    timex = ctypes.create_string_buffer(512)
    try:
        state: int = ctypes.CDLL(None, use_errno=True).adjtimex(timex)
    except (OSError, AttributeError):
        return None
    if state < 0:
        return None
    long = ctypes.sizeof(ctypes.c_long)
    status = ctypes.c_int.from_buffer(timex, 5 * long).value
    return not status & _UNSYNCHRONISED


def directory_facts(path: str, broker_id: int) -> DirectoryFacts:
    """Look at a log directory; nothing is changed."""
    problem = None
    try:
        try_directory(Path(path), broker_id)
    except ConfigError as error:
        if "is in use by another broker" not in str(error):
            problem = str(error)
    existing = Path(path).absolute()
    while not os.access(existing, os.F_OK) and existing != existing.parent:
        existing = existing.parent
    try:
        at = os.statvfs(existing)
        device = existing.stat().st_dev
    except OSError as error:
        return DirectoryFacts(path, problem or f"log.dirs: {path}: {error}", -1, None, 0.0, None)
    mounts = ""
    with suppress(OSError):  # Only Linux has it.
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "replace")
    return DirectoryFacts(
        path,
        problem,
        device,
        type_of(device, mounts),
        1 - at.f_bavail / at.f_blocks if at.f_blocks else 0.0,
        at.f_favail if at.f_files else None,
    )


def machine_findings(facts: MachineFacts, config: ConfigView | None) -> Iterator[Finding]:
    """
    Say what to mend on a machine.

    :param config: of the broker that is to run there; None: there is none to look at, or it cannot be read.
    """
    for line in advice(facts.is_compiled, facts.build):
        yield Finding(
            Weight.BETTER, "Python", line, "The broker needs more processor time.", "Install as the line says."
        )
    if facts.descriptors is not None and facts.descriptors < FEW_DESCRIPTORS:
        yield Finding(
            Weight.RISK,
            "open files",
            f"A process of this user may have {facts.descriptors} files open",
            "Connections beyond that are refused, and files of logs are opened and closed again and again.",
            f"Raise the limit to {FEW_DESCRIPTORS} or more: LimitNOFILE= of a unit, nofile in limits.conf.",
        )
    if facts.swappiness is not None and facts.swappiness > HIGH_SWAPPINESS:
        yield Finding(
            Weight.BETTER,
            "swap",
            f"vm.swappiness is {facts.swappiness}",
            "Under memory pressure the kernel swaps the broker out rather than drop cached pages, and clients wait.",
            f"Set vm.swappiness to 1 (at most {HIGH_SWAPPINESS}), or do without swap.",
        )
    if facts.is_clock_kept is False:
        yield Finding(
            Weight.RISK,
            "clock",
            "Nothing keeps the machine's clock",
            "Timestamps of records, retention by time and lookup by time go wrong; certificates seem to have ended.",
            "Run chrony, ntpd or systemd-timesyncd.",
        )
    if config is not None:
        workers = config.get(keys.WORKERS)
        if workers > facts.cores:
            yield Finding(
                Weight.BETTER,
                "workers",
                f"{workers} workers share {facts.cores} processors",
                "They wait for each other, and each costs memory.",
                f"Set workers to {facts.cores}, or to auto.",
            )
        elif workers == 1 and facts.cores >= MANY_CORES:
            yield Finding(
                Weight.BETTER,
                "workers",
                f"One process serves, and there are {facts.cores} processors",
                "A busy broker is limited by one of them.",
                "Set workers to auto, if this machine is the broker's.",
            )


def directory_findings(found: Sequence[DirectoryFacts], warn_ratio: float) -> Iterator[Finding]:
    """
    Say what to mend about log directories.

    :param warn_ratio: ``log.dir.usage.warn.ratio``.
    """
    for facts in found:
        if facts.problem is not None:
            yield Finding(
                Weight.BROKEN,
                facts.path,
                facts.problem.removeprefix("log.dirs: "),
                "The broker does not start.",
                "Mend that (a directory belongs to the broker's user), or name another one in log.dirs.",
            )
        if facts.file_system in _IN_MEMORY:
            yield Finding(
                Weight.BROKEN,
                facts.path,
                f"It is in memory ({facts.file_system})",
                "All records are gone when the machine restarts.",
                "Name a directory on a disk in log.dirs.",
            )
        if facts.file_system in _REMOTE:
            yield Finding(
                Weight.RISK,
                facts.path,
                f"It is on a network file system ({facts.file_system})",
                "Syncs may return before records are safe, locks may not hold, and the disk fails with the network.",
                "Use a local disk, and replicas on other machines.",
            )
        if Path(facts.path).absolute().is_relative_to("/tmp"):
            yield Finding(
                Weight.RISK,
                facts.path,
                "It is below /tmp",
                "Many systems empty /tmp when they start, or remove what is old.",
                "Name another directory in log.dirs, such as one below /var/lib.",
            )
        if facts.used_ratio >= warn_ratio:
            yield Finding(
                Weight.RISK,
                facts.path,
                f"{facts.used_ratio:.0%} of its file system is used",
                "Producers are refused when it is full.",
                "Keep less (log.retention.bytes, log.retention.ms), or give it more space.",
            )
        if facts.free_inodes is not None and facts.free_inodes < FEW_INODES:
            yield Finding(
                Weight.RISK,
                facts.path,
                f"Its file system has room for {facts.free_inodes} more files",
                "New segments and topics are refused when there is none.",
                "Remove files, or make the file system with more inodes.",
            )
    by_device: dict[int, list[str]] = {}
    for facts in found:
        by_device.setdefault(facts.device, []).append(facts.path)
    for device, paths in by_device.items():
        if len(paths) > 1 and device >= 0:
            yield Finding(
                Weight.BETTER,
                ", ".join(paths),
                "These log directories are on one file system",
                "They share its space and speed, and fail together.",
                "Give each a disk of its own, or name one of them.",
            )
