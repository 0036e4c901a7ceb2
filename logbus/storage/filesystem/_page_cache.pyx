# cython: language_level=3
"""
Tells what of a file is in memory, where the file system does not: see :mod:`logbus.storage.filesystem.page_cache`.
"""

from libc.stdint cimport int64_t
from posix.types cimport off_t

from logbus.posix_memory cimport is_resident as _is_resident

REVISION = 1


def is_resident(int fd, off_t position, int64_t length):
    """Whether all of these bytes, which the file has, are in memory; false also where the system does not know."""
    return _is_resident(fd, position, length)
