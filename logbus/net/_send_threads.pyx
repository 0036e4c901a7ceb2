# cython: language_level=3
"""
Threads that send bytes and slices of files, know no Python and never wait for the interpreter's lock. A socket and what
to send on it go in; the number of bytes that were sent comes back, and an eventfd tells when.
:mod:`logbus.net.native_sends` is their place in the reactor.

All threads wait at one epoll until a socket that has something to send takes some of it. The kernel's list of those that
do is the queue: first come, first served, by whichever thread is free. So a slow peer delays no other, and a thread that
does not get a processor delays only one.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from posix.types cimport off_t
from posix.unistd cimport close, getpid, pread, read, write

from logbus.posix_threads cimport (
    EFD_CLOEXEC, EFD_NONBLOCK, eventfd, pthread_cond_init, pthread_cond_signal, pthread_cond_t, pthread_cond_wait,
    pthread_mutex_init, pthread_mutex_lock, pthread_mutex_t, pthread_mutex_unlock, start_thread,
)
from logbus.posix_sockets cimport (
    EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLIN, EPOLLONESHOT, EPOLLOUT, F_DUPFD_CLOEXEC,
    MSG_NOSIGNAL, epoll_create1, epoll_ctl, epoll_event, epoll_wait, fcntl, send, sendfile,
)

import os

REVISION = 5

cdef enum:
    TURN = 1 << 20  # Bytes sent for one socket before others get their turn.
    SMALL = 1 << 13  # Copying so many bytes of a file costs less than sending them by a call of their own.
    GATHERED = 1 << 16  # Bytes that are sent together.


cdef struct Piece:
    const char *data  # In memory; or NULL.
    int file
    off_t position
    int64_t left


cdef struct Job:
    int64_t ticket
    int sock  # A duplicate: its owner may close its own.
    Piece *piece  # The one that is being sent.
    Piece *end
    int64_t sent
    int error
    Job *next  # Of those that ended.
    Piece pieces[1]


cdef struct Shared:
    # What the threads share with each other and their owner; under the lock, but for the descriptors.
    pthread_mutex_t lock
    pthread_cond_t gone
    Job *ended
    Job **ended_tail
    int threads
    int event  # Something ended.
    int stop
    int poll


cdef void end(Shared *shared, Job *job) noexcept nogil:
    cdef uint64_t one = 1
    cdef bint was_empty
    # Before the descriptor is closed: its owner's keeps the socket open, and watched.
    epoll_ctl(shared.poll, EPOLL_CTL_DEL, job.sock, NULL)
    close(job.sock)
    job.next = NULL
    pthread_mutex_lock(&shared.lock)
    was_empty = shared.ended == NULL
    shared.ended_tail[0] = job
    shared.ended_tail = &job.next
    pthread_mutex_unlock(&shared.lock)
    if was_empty:
        write(shared.event, &one, sizeof(one))


cdef ssize_t gather(Job *job, char *buffer) noexcept nogil:
    # Copy the next pieces if several are small, as where a follower gets a little of many partitions; 0: they are not.
    cdef Piece *piece = job.piece
    cdef ssize_t size = 0
    while piece < job.end and piece.left <= SMALL and size + piece.left <= GATHERED:
        if piece.data != NULL:
            memcpy(buffer + size, piece.data, piece.left)
        elif pread(piece.file, buffer + size, piece.left, piece.position) != piece.left:
            break  # The file ends before the slice, or cannot be read: found again, and reported, by sending it.
        size += piece.left
        piece += 1
    return size if piece > job.piece + 1 else 0


cdef void advance(Shared *shared, Job *job, char *buffer) noexcept nogil:
    # Send a turn's worth, or as much as the socket takes; then wait for it.
    cdef int64_t turn = TURN
    cdef int64_t asked, gathered, done
    cdef ssize_t sent
    cdef Piece *piece
    cdef epoll_event wish
    while job.piece < job.end and turn > 0:
        piece = job.piece
        asked = min(piece.left, turn)
        gathered = gather(job, buffer) if buffer != NULL else 0
        if gathered:
            sent = send(job.sock, buffer, gathered, MSG_NOSIGNAL)
        elif piece.data != NULL:
            # Not with MSG_MORE: a peer that is woken by the head is ready for the records behind it.
            sent = send(job.sock, piece.data, asked, MSG_NOSIGNAL)
        else:
            sent = sendfile(job.sock, piece.file, &piece.position, asked)
        if sent > 0:
            job.sent += sent
            turn -= sent
            if 0 < sent < gathered:
                turn = 0  # The socket is full: do not copy what is left in vain.
            while sent:
                done = min(<int64_t>sent, piece.left)
                if piece.data != NULL:
                    piece.data += done
                elif gathered:
                    piece.position += done  # As sendfile does.
                piece.left -= done
                sent -= done
                if piece.left == 0:
                    piece += 1
            job.piece = piece
        elif sent == 0:
            break  # The file ends before the slice.
        elif errno == EINTR:
            continue
        elif errno == EAGAIN:
            turn = 0
        else:
            job.error = errno
            break
    if job.piece == job.end or turn > 0:
        end(shared, job)
        return
    # From now on another thread may have it.
    wish.events = EPOLLOUT | EPOLLONESHOT
    wish.data.ptr = job
    if epoll_ctl(shared.poll, EPOLL_CTL_MOD, job.sock, &wish) != 0:
        job.error = errno
        end(shared, job)


cdef void *run(void *argument) noexcept nogil:
    cdef Shared *shared = <Shared *>argument
    cdef epoll_event event
    cdef uint64_t one = 1
    cdef char *buffer = <char *>malloc(GATHERED)  # Without it each piece is sent by itself.
    while True:
        # One at a time: the others are for threads that are free.
        if epoll_wait(shared.poll, &event, 1, -1) < 1:
            continue
        if event.data.ptr == NULL:
            break
        advance(shared, <Job *>event.data.ptr, buffer)
    free(buffer)
    write(shared.stop, &one, sizeof(one))  # For the next one.
    pthread_mutex_lock(&shared.lock)
    shared.threads -= 1
    pthread_cond_signal(&shared.gone)
    pthread_mutex_unlock(&shared.lock)
    return NULL


cdef int fill(Piece *piece, object given) except -1:
    cdef Py_buffer view
    if isinstance(given, tuple):
        piece.file, piece.position, piece.left = given
        return 0
    PyObject_GetBuffer(given, &view, PyBUF_SIMPLE)
    # The caller keeps the object.
    piece.data = <const char *>view.buf
    piece.left = view.len
    PyBuffer_Release(&view)
    return 0


cdef void close_if_open(int descriptor) noexcept:
    if descriptor >= 0:
        close(descriptor)


cdef void dispose(Shared *shared) noexcept:
    close_if_open(shared.event)
    close_if_open(shared.stop)
    close_if_open(shared.poll)
    free(shared)


cdef class SendThreads:
    """
    Threads, and what they send.

    The caller keeps the bytes, and the files open, until their ticket comes back, and shuts a socket down whose peer it
    gives up. All methods belong to one thread, and to the process that made the object: threads do not survive a fork.

    :param number: of threads.
    """

    cdef Shared *_shared
    cdef int _process

    def __cinit__(self, int number):
        cdef Shared *shared
        cdef epoll_event wish
        cdef int error
        if not 1 <= number <= 16:
            raise ValueError("1 to 16 threads can send")
        shared = <Shared *>calloc(1, sizeof(Shared))
        if shared == NULL:
            raise MemoryError
        shared.ended_tail = &shared.ended
        shared.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
        shared.stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
        shared.poll = epoll_create1(EPOLL_CLOEXEC)
        wish.events = EPOLLIN
        wish.data.ptr = NULL
        if (
            shared.event < 0
            or shared.stop < 0
            or shared.poll < 0
            or epoll_ctl(shared.poll, EPOLL_CTL_ADD, shared.stop, &wish) != 0
        ):
            error = errno
            dispose(shared)
            raise OSError(error, os.strerror(error))
        pthread_mutex_init(&shared.lock, NULL)
        pthread_cond_init(&shared.gone, NULL)
        pthread_mutex_lock(&shared.lock)
        while shared.threads < number and start_thread(run, shared):
            shared.threads += 1
        number = shared.threads
        pthread_mutex_unlock(&shared.lock)
        if not number:
            dispose(shared)
            raise RuntimeError("can't start new thread")
        self._shared = shared
        self._process = getpid()

    def fileno(self):
        """A descriptor that is readable while there is something to take."""
        return -1 if self._shared == NULL else self._shared.event

    def submit(self, int64_t ticket, int sock, list pieces):
        """
        Send to a non-blocking socket.

        :param pieces: one or more, none of them empty: bytes, or a file with a position and a length.
        :raises RuntimeError: this is a child of the process that made the object, or it was stopped.
        :raises OSError: the process has too many open files, or the system no more room.
        """
        cdef Shared *shared = self._shared
        cdef Job *job
        cdef epoll_event wish
        cdef int error
        if shared == NULL or getpid() != self._process:
            raise RuntimeError("the threads that send were stopped, or belong to another process")
        job = <Job *>calloc(1, sizeof(Job) + len(pieces) * sizeof(Piece))
        if job == NULL:
            raise MemoryError
        job.piece = job.end = &job.pieces[0]
        try:
            for given in pieces:
                fill(job.end, given)
                job.end += 1
            job.sock = fcntl(sock, F_DUPFD_CLOEXEC, 0)
            if job.sock < 0:
                raise OSError(errno, os.strerror(errno))
        except BaseException:
            free(job)
            raise
        job.ticket = ticket
        # A thread has it as soon as the socket takes something.
        wish.events = EPOLLOUT | EPOLLONESHOT
        wish.data.ptr = job
        if epoll_ctl(shared.poll, EPOLL_CTL_ADD, job.sock, &wish) != 0:
            error = errno
            close(job.sock)
            free(job)
            raise OSError(error, os.strerror(error))

    def take(self):
        """The ticket, the bytes sent and the error number (0: none) of each job that ended."""
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
            found.append((job.ticket, job.sent, job.error))
            free(job)
            job = following
        return found

    def stop(self):
        """End the threads; all jobs must have ended."""
        cdef Shared *shared = self._shared
        cdef uint64_t one = 1
        if shared == NULL or getpid() != self._process:
            return
        self._shared = NULL
        with nogil:
            write(shared.stop, &one, sizeof(one))
            pthread_mutex_lock(&shared.lock)
            while shared.threads:
                pthread_cond_wait(&shared.gone, &shared.lock)
            pthread_mutex_unlock(&shared.lock)
        dispose(shared)
