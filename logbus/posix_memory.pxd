# Whether bytes of a file are in memory, where the file system does not tell by RWF_NOWAIT, as tmpfs and overlayfs do not.

from libc.stdint cimport int64_t
from posix.mman cimport MAP_FAILED, MAP_SHARED, PROT_READ, mincore, mmap, munmap
from posix.types cimport off_t
from posix.unistd cimport _SC_PAGESIZE, sysconf

cdef enum:
    PAGES = 256


cdef inline bint is_resident(int fd, off_t position, int64_t length) noexcept nogil:
    # The pages are mapped, which reads none of them, and asked for. False also if that is not possible.
    cdef unsigned char states[PAGES]
    cdef off_t page = sysconf(_SC_PAGESIZE)
    cdef off_t at = position & ~(page - 1)
    cdef off_t end = position + length
    cdef off_t size
    cdef off_t i
    cdef void *mapped
    cdef bint known
    while at < end:
        size = min(end - at, PAGES * page)
        mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, at)
        if mapped == MAP_FAILED:
            return False
        known = mincore(mapped, size, states) == 0
        munmap(mapped, size)
        if not known:
            return False
        i = 0
        while i * page < size:
            if not states[i] & 1:
                return False
            i += 1
        at += size
    return True
