# cython: language_level=3
"""
Threads that write to files, know no Python and never wait for the interpreter's lock. A descriptor, a position and
memory go in; an error number comes back, and an eventfd tells when.
:mod:`logbus.storage.filesystem.native_writes` is their place in the reactor.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EINTR, EIO, errno
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free
from posix.types cimport off_t
from posix.unistd cimport close, getpid, read, write

from logbus.posix_threads cimport (
    EFD_CLOEXEC, EFD_NONBLOCK, eventfd, pthread_cond_broadcast, pthread_cond_init, pthread_cond_signal, pthread_cond_t,
    pthread_cond_wait, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_t, pthread_mutex_unlock, start_thread,
)

import os

cdef extern from "<unistd.h>" nogil:
    ssize_t pwrite(int, const void *, size_t, off_t)

REVISION = 1

cdef struct Job:
    int64_t ticket
    int fd
    int error
    off_t position
    Py_buffer data
    Job *next


cdef struct Shared:
    # What the threads share with their owner, under the lock.
    pthread_mutex_t lock
    pthread_cond_t wanted_more
    pthread_cond_t ended_more  # Also when a thread leaves.
    Job *wanted
    Job **wanted_tail
    Job *ended
    Job **ended_tail
    int event
    int threads
    int idle
    bint stopping


cdef int write_all(Job *job) noexcept nogil:
    cdef const char *data = <const char *>job.data.buf
    cdef Py_ssize_t done = 0
    cdef ssize_t count
    while done < job.data.len:
        count = pwrite(job.fd, data + done, job.data.len - done, job.position + done)
        if count > 0:
            done += count
        elif count == 0:
            return EIO
        elif errno != EINTR:
            return errno or EIO
    return 0


cdef void *run(void *argument) noexcept nogil:
    cdef Shared *shared = <Shared *>argument
    cdef Job *job
    cdef bint was_empty
    cdef uint64_t one = 1
    pthread_mutex_lock(&shared.lock)
    while True:
        while shared.wanted == NULL and not shared.stopping:
            shared.idle += 1
            pthread_cond_wait(&shared.wanted_more, &shared.lock)
            shared.idle -= 1
        job = shared.wanted
        if job == NULL:
            break
        shared.wanted = job.next
        if shared.wanted == NULL:
            shared.wanted_tail = &shared.wanted
        pthread_mutex_unlock(&shared.lock)
        job.error = write_all(job)
        job.next = NULL
        pthread_mutex_lock(&shared.lock)
        was_empty = shared.ended == NULL
        shared.ended_tail[0] = job
        shared.ended_tail = &job.next
        pthread_cond_broadcast(&shared.ended_more)
        if was_empty:
            # Whoever wakes finds the lock free.
            pthread_mutex_unlock(&shared.lock)
            write(shared.event, &one, sizeof(one))
            pthread_mutex_lock(&shared.lock)
    shared.threads -= 1
    pthread_cond_broadcast(&shared.ended_more)
    pthread_mutex_unlock(&shared.lock)
    return NULL


cdef class WriteThreads:
    """
    A queue of writes and its threads, which are started when there is work and none is free.

    The caller keeps each descriptor open until its ticket comes back. All methods belong to one thread, and to the
    process that made the object: threads do not survive a fork.

    :param most: upper bound of threads.
    """

    cdef Shared *_shared
    cdef int _most
    cdef int _process
    cdef int _unfinished

    def __cinit__(self, int most):
        cdef Shared *shared = <Shared *>calloc(1, sizeof(Shared))
        if shared == NULL:
            raise MemoryError
        shared.wanted_tail = &shared.wanted
        shared.ended_tail = &shared.ended
        shared.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
        if shared.event < 0:
            free(shared)
            raise OSError(errno, os.strerror(errno))
        pthread_mutex_init(&shared.lock, NULL)
        pthread_cond_init(&shared.wanted_more, NULL)
        pthread_cond_init(&shared.ended_more, NULL)
        self._shared = shared
        self._most = most
        self._process = getpid()

    def fileno(self):
        """A descriptor that is readable while there is something to take."""
        return -1 if self._shared == NULL else self._shared.event

    def submit(self, int64_t ticket, int fd, data, int64_t position):
        """
        Write ``data`` at ``position``; its memory is not to change until the ticket comes back.

        :raises RuntimeError: this is a child of the process that made the object, or it was stopped; or no thread can
            be started.
        """
        cdef Shared *shared = self._shared
        cdef Job *job
        cdef bint is_served
        if shared == NULL or getpid() != self._process:
            raise RuntimeError("the threads that write were stopped, or belong to another process")
        job = <Job *>calloc(1, sizeof(Job))
        if job == NULL:
            raise MemoryError
        try:
            PyObject_GetBuffer(data, &job.data, PyBUF_SIMPLE)
        except BaseException:
            free(job)
            raise
        job.ticket = ticket
        job.fd = fd
        job.position = position
        pthread_mutex_lock(&shared.lock)
        is_served = shared.idle > 0 or self._has_started(shared) or shared.threads > 0
        if is_served:
            shared.wanted_tail[0] = job
            shared.wanted_tail = &job.next
        pthread_mutex_unlock(&shared.lock)
        if not is_served:
            PyBuffer_Release(&job.data)
            free(job)
            raise RuntimeError("can't start new thread")
        pthread_cond_signal(&shared.wanted_more)
        self._unfinished += 1

    cdef bint _has_started(self, Shared *shared) noexcept:
        # Under the lock: whether there is a further thread.
        if shared.threads >= self._most or not start_thread(run, shared):
            return False
        shared.threads += 1
        return True

    def take(self):
        """The ticket and the error number (0: none) of each write that ended."""
        cdef Shared *shared = self._shared
        cdef Job *job
        cdef Job *following
        cdef uint64_t number
        cdef list found = []
        if shared == NULL:
            return found
        pthread_mutex_lock(&shared.lock)
        job = shared.ended
        shared.ended = NULL
        shared.ended_tail = &shared.ended
        read(shared.event, &number, sizeof(number))  # What ends just now comes again.
        pthread_mutex_unlock(&shared.lock)
        while job != NULL:
            following = job.next
            found.append((job.ticket, job.error))
            PyBuffer_Release(&job.data)
            free(job)
            self._unfinished -= 1
            job = following
        return found

    def wait(self):
        """Wait until something has ended, if anything is unfinished: :meth:`take` has it then."""
        cdef Shared *shared = self._shared
        if shared == NULL or not self._unfinished or getpid() != self._process:
            return
        with nogil:
            pthread_mutex_lock(&shared.lock)
            while shared.ended == NULL:
                pthread_cond_wait(&shared.ended_more, &shared.lock)
            pthread_mutex_unlock(&shared.lock)

    def stop(self):
        """End the threads, after what is queued, and close the eventfd; what ended is not told any more."""
        cdef Shared *shared = self._shared
        if shared == NULL or getpid() != self._process:
            return
        with nogil:
            pthread_mutex_lock(&shared.lock)
            shared.stopping = True
            pthread_cond_broadcast(&shared.wanted_more)
            while shared.threads:
                pthread_cond_wait(&shared.ended_more, &shared.lock)
            pthread_mutex_unlock(&shared.lock)
        self.take()
        self._shared = NULL
        close(shared.event)
        free(shared)
