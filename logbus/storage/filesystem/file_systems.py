"""Tells on which file systems one ``syncfs`` stands for many calls of ``fdatasync``."""

from __future__ import annotations

import os
from pathlib import Path

_KNOWN = frozenset({"ext4", "xfs"})
"""
They write the data, commit the journal once, and flush the device's cache. Others do not flush (ext2), or do not report
failed writes to ``syncfs`` (overlay).
"""
_REPORTING_KERNEL = (5, 17)
"""Since Linux 5.17 ``syncfs`` reports failed writes and a failed commit."""


def type_of(device: int, mounts: str) -> str | None:
    """
    The type of the file system on a device (pure); None if it is not mounted.

    :param mounts: the content of ``/proc/self/mountinfo``.
    """
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.splitlines():
        mount, _, source = line.partition(" - ")
        fields = mount.split()
        if len(fields) > 2 and fields[2] == wanted and source:
            return source.split()[0]
    return None


def kernel_version(release: str) -> tuple[int, ...]:
    """The first two numbers of a kernel's release (pure); zeros if it does not begin with numbers."""
    numbers = release.split("-")[0].split(".")[:2]
    return tuple(map(int, numbers)) if len(numbers) == 2 and all(map(str.isdigit, numbers)) else (0, 0)


def open_for_syncfs(root: str) -> int:
    """A descriptor of the directory ``root`` for ``syncfs``; −1 if that would not do for its file system."""
    system = os.uname()
    if system.sysname != "Linux" or kernel_version(system.release) < _REPORTING_KERNEL:
        return -1
    try:
        if type_of(os.stat(root).st_dev, Path("/proc/self/mountinfo").read_text("utf-8", "replace")) not in _KNOWN:
            return -1
        return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return -1
