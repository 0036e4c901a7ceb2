# cython: language_level=3
"""
Threads that sync files, know no Python and never wait for the interpreter's lock. Descriptors go in; they come back with
an error number, and an eventfd tells when. :mod:`logbus.storage.filesystem.native_syncs` is their place in the reactor.

Where the caller names a file system, files that wait together are served by one ``syncfs``, which writes them all and
commits the journal once. It also writes what else is unsynced there, so it is used only while that is little.
"""

from libc.errno cimport EIO, EROFS, errno
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free, realloc, strtol
from libc.string cimport memcpy, memmove, strlen, strstr
from posix.unistd cimport close, getpid, pread, read, write

from logbus.posix_threads cimport (
    EFD_CLOEXEC, EFD_NONBLOCK, eventfd, pthread_cond_broadcast, pthread_cond_init, pthread_cond_signal, pthread_cond_t,
    pthread_cond_wait, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_t, pthread_mutex_unlock, start_thread,
)

import os

cdef extern from "<sys/stat.h>" nogil:
    ctypedef struct stat_t "struct stat":
        uint64_t st_dev
    int fstat(int, stat_t *)

cdef extern from "<sys/statvfs.h>" nogil:
    ctypedef struct statvfs_t "struct statvfs":
        unsigned long f_flag
    int fstatvfs(int, statvfs_t *)
    unsigned long ST_RDONLY

cdef extern from "<unistd.h>" nogil:
    int fdatasync(int)

cdef extern from *:
    """
    #include <unistd.h>
    extern int syncfs(int);  /* Declared for _GNU_SOURCE only. */
    """
    int syncfs(int) nogil

REVISION = 2

cdef enum:
    MOST_TOGETHER = 1024
    LEAST_TOGETHER = 4
    FEW = 2  # Threads where files can be served together: what waits gathers, instead of being synced one by one.


cdef struct Job:
    int64_t ticket
    int fd
    int error


cdef struct Shared:
    # What the threads share with their owner, under the lock. The last of them to leave frees it.
    pthread_mutex_t lock
    pthread_cond_t changed
    pthread_cond_t left
    Job *wanted
    Py_ssize_t first  # The oldest of those that wait.
    Py_ssize_t end
    Job *ended
    Py_ssize_t ended_count
    Py_ssize_t room  # Of each of the two arrays; at least as much as there are unfinished jobs.
    Py_ssize_t unfinished  # Submitted and not taken.
    int event
    int file_system
    int memory  # /proc/meminfo, or -1.
    int most
    int allowed  # Of them now.
    long little  # So many KB.
    int threads
    int idle
    bint is_together
    bint stopping
    bint orphaned
    long together


cdef void release(Shared *shared) noexcept nogil:
    free(shared.wanted)
    free(shared.ended)
    if shared.memory >= 0:
        close(shared.memory)
    close(shared.event)
    free(shared)


cdef long kilobytes(const char *text, const char *name) noexcept nogil:
    cdef const char *found = strstr(text, name)
    return -1 if found == NULL else strtol(found + strlen(name), NULL, 10)


cdef bint little_is_unsynced(Shared *shared) noexcept nogil:
    # Of the whole machine: more than is on the file system, never less.
    cdef char text[2048]
    cdef long dirty, written
    cdef Py_ssize_t size
    if shared.memory < 0:
        return False
    size = pread(shared.memory, text, sizeof(text) - 1, 0)
    if size <= 0:
        return False
    text[size] = 0
    dirty = kilobytes(text, b"\nDirty:")
    written = kilobytes(text, b"\nWriteback:")
    return dirty >= 0 and written >= 0 and dirty + written <= shared.little


cdef int sync_one(int fd) noexcept nogil:
    return 0 if fdatasync(fd) == 0 else errno or EIO


cdef int sync_file_system(int fd) noexcept nogil:
    cdef statvfs_t state
    if syncfs(fd) != 0:
        return errno or EIO
    # One that an error made read-only has nothing more to sync.
    if fstatvfs(fd, &state) != 0:
        return errno or EIO
    return EROFS if state.f_flag & ST_RDONLY else 0


cdef void sync_together(Shared *shared, Job *jobs, Py_ssize_t count) noexcept nogil:
    cdef stat_t there, found
    cdef Py_ssize_t n, members = 0
    cdef int error
    if fstat(shared.file_system, &there) != 0:
        there.st_dev = 0
    for n in range(count):
        # Its directory may be a link to another file system.
        jobs[n].error = -1
        if fstat(jobs[n].fd, &found) != 0 or found.st_dev != there.st_dev:
            jobs[n].error = sync_one(jobs[n].fd)
        else:
            members += 1
    if not members:
        return
    error = sync_file_system(shared.file_system)
    for n in range(count):
        if jobs[n].error < 0:
            jobs[n].error = error


cdef void *run(void *argument) noexcept nogil:
    cdef Shared *shared = <Shared *>argument
    cdef Job jobs[MOST_TOGETHER]
    cdef Py_ssize_t count
    cdef bint is_last, was_empty, together
    cdef uint64_t one = 1
    pthread_mutex_lock(&shared.lock)
    while True:
        while shared.first == shared.end and not shared.stopping and shared.threads <= shared.allowed:
            shared.idle += 1
            pthread_cond_wait(&shared.changed, &shared.lock)
            shared.idle -= 1
        if shared.first == shared.end:
            break
        count = 1
        together = shared.file_system >= 0 and not shared.is_together and shared.end - shared.first >= LEAST_TOGETHER
        if together:
            shared.is_together = True
            pthread_mutex_unlock(&shared.lock)
            together = little_is_unsynced(shared)
            pthread_mutex_lock(&shared.lock)
            shared.allowed = min(shared.most, FEW) if together else shared.most
            count = min(shared.end - shared.first, <Py_ssize_t>MOST_TOGETHER) if together else 1
            shared.is_together = together and count
            if not shared.is_together and shared.first == shared.end:
                continue  # Others took them meanwhile.
            shared.together += together
        memcpy(jobs, shared.wanted + shared.first, count * sizeof(Job))
        shared.first += count
        pthread_mutex_unlock(&shared.lock)
        if together:
            sync_together(shared, jobs, count)
        else:
            jobs[0].error = sync_one(jobs[0].fd)
        pthread_mutex_lock(&shared.lock)
        if together:
            shared.is_together = False
        memcpy(shared.ended + shared.ended_count, jobs, count * sizeof(Job))
        was_empty = shared.ended_count == 0
        shared.ended_count += count
        if was_empty:
            # Whoever wakes finds the lock free.
            pthread_mutex_unlock(&shared.lock)
            write(shared.event, &one, sizeof(one))
            pthread_mutex_lock(&shared.lock)
    shared.threads -= 1
    is_last = shared.orphaned and shared.threads == 0
    pthread_cond_signal(&shared.left)
    pthread_mutex_unlock(&shared.lock)
    if is_last:
        release(shared)
    return NULL


cdef bint add_thread(Shared *shared) noexcept nogil:
    # Under the lock.
    if not start_thread(run, shared):
        return False
    shared.threads += 1
    return True


cdef class SyncThreads:
    """
    A queue of descriptors and its threads, which are started when there is work and none is free.

    The caller keeps each descriptor open until it comes back. All methods belong to one thread, and to the process that
    made the object: threads do not survive a fork.

    :param most: upper bound of threads.
    :param file_system: a descriptor on a file system on which ``syncfs`` may serve several of its files at a time, or
        -1. The caller keeps it open until :meth:`stop`.
    :param little: KB; while more is unsynced on the machine, each file is synced by itself.
    :ivar together: how often several files were served by one call.
    """

    cdef Shared *_shared
    cdef int _process

    def __cinit__(self, int most, int file_system=-1, long little=16384):
        cdef Shared *shared = <Shared *>calloc(1, sizeof(Shared))
        if shared == NULL:
            raise MemoryError
        shared.memory = -1
        shared.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
        if shared.event < 0:
            free(shared)
            raise OSError(errno, os.strerror(errno))
        pthread_mutex_init(&shared.lock, NULL)
        pthread_cond_init(&shared.changed, NULL)
        pthread_cond_init(&shared.left, NULL)
        shared.most = most
        shared.little = little
        shared.file_system = file_system
        if file_system >= 0:
            try:
                shared.memory = os.open("/proc/meminfo", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                shared.file_system = -1
        shared.allowed = most if shared.file_system < 0 else min(most, <int>FEW)
        self._shared = shared
        self._process = getpid()

    def __dealloc__(self):
        cdef Shared *shared = self._shared
        cdef bint is_last
        if shared == NULL or getpid() != self._process:
            return  # In a child the lock may be held by a thread that is not there.
        pthread_mutex_lock(&shared.lock)
        shared.stopping = shared.orphaned = True
        is_last = shared.threads == 0
        pthread_cond_broadcast(&shared.changed)
        pthread_mutex_unlock(&shared.lock)
        if is_last:
            release(shared)

    @property
    def together(self):
        return 0 if self._shared == NULL else self._shared.together

    def fileno(self):
        """A descriptor that is readable while there is something to take."""
        return -1 if self._shared == NULL else self._shared.event

    def submit(self, wanted):
        """
        Sync files (fdatasync).

        :param wanted: a ticket, which comes back, and the descriptor of each.
        :raises RuntimeError: this is a child of the process that made the object, or it was stopped.
        """
        cdef Shared *shared = self._shared
        cdef Py_ssize_t n, count = len(wanted), waiting, woken
        cdef Job *job
        if shared == NULL or getpid() != self._process:
            raise RuntimeError("the threads that sync were stopped, or belong to another process")
        cdef list numbers = [(<int64_t>ticket, <int>fd) for ticket, fd in wanted]
        pthread_mutex_lock(&shared.lock)
        if not make_room(shared, count):
            pthread_mutex_unlock(&shared.lock)
            raise MemoryError
        for n in range(count):
            job = shared.wanted + shared.end + n
            job.ticket, job.fd = numbers[n]
            job.error = 0
        shared.end += count
        shared.unfinished += count
        waiting = shared.end - shared.first
        woken = min(count, <Py_ssize_t>shared.idle)
        while shared.threads < shared.allowed and shared.idle < waiting:
            if not add_thread(shared):
                break
            waiting -= 1
        n = shared.threads
        if not n:
            shared.end -= count
            shared.unfinished -= count
        pthread_mutex_unlock(&shared.lock)
        # Whoever wakes finds the lock free.
        while woken > 0:
            pthread_cond_signal(&shared.changed)
            woken -= 1
        if not n:
            raise RuntimeError("can't start new thread")

    def take(self):
        """The ticket and the error number (0: none) of each file whose sync ended."""
        cdef Shared *shared = self._shared
        cdef Py_ssize_t n
        cdef uint64_t number
        cdef list found = []
        if shared == NULL:
            return found
        pthread_mutex_lock(&shared.lock)
        for n in range(shared.ended_count):
            found.append((shared.ended[n].ticket, shared.ended[n].error))
        read(shared.event, &number, sizeof(number))  # Nothing is there if they ended just now; then it comes again.
        shared.unfinished -= shared.ended_count
        shared.ended_count = 0
        pthread_mutex_unlock(&shared.lock)
        return found

    def stop(self):
        """End the threads, after what is queued, and close the eventfd."""
        cdef Shared *shared = self._shared
        if shared == NULL or getpid() != self._process:
            return
        self._shared = NULL
        with nogil:
            pthread_mutex_lock(&shared.lock)
            shared.stopping = True
            pthread_cond_broadcast(&shared.changed)
            while shared.threads:
                pthread_cond_wait(&shared.left, &shared.lock)
            pthread_mutex_unlock(&shared.lock)
            release(shared)


cdef bint make_room(Shared *shared, Py_ssize_t count) noexcept nogil:
    # Threads put what ended where there is room already.
    cdef Py_ssize_t room = shared.room or 64
    cdef Job *grown
    if shared.first:
        memmove(shared.wanted, shared.wanted + shared.first, (shared.end - shared.first) * sizeof(Job))
        shared.end -= shared.first
        shared.first = 0
    while room < shared.unfinished + count:
        room *= 2
    if room == shared.room:
        return True
    grown = <Job *>realloc(shared.wanted, room * sizeof(Job))
    if grown == NULL:
        return False
    shared.wanted = grown
    grown = <Job *>realloc(shared.ended, room * sizeof(Job))
    if grown == NULL:
        return False
    shared.ended = grown
    shared.room = room
    return True
