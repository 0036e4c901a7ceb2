"""
Touches memory before a round, so that the host of a virtual machine has provided it.

A virtual machine's host may give memory only when it is first touched, and take back what has been free for some
seconds.  Filling such pages with a log costs the broker several times what filling ordinary ones does: 4 s of processor
for a GB rather than 0.8 where this was measured.  Which system meets them is chance; so before a round as much page
cache as it may fill is filled and given back: the kernel hands out first what was freed last.
"""

from __future__ import annotations

import os
from pathlib import Path

_PIECE = 1 << 20


def touch(directory: Path, size: int) -> None:
    """
    Write a file of ``size`` bytes, without waiting for the disk, and remove it.
    """
    path = directory / "touch"
    data = bytes(_PIECE)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        for _ in range(size // _PIECE):
            os.write(fd, data)
    finally:
        os.close(fd)
        path.unlink()
