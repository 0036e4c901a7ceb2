# cython: language_level=3
"""
Threads that answer the next Fetch requests of consumers that read on and on. They know no Python, and never wait for the
interpreter's lock. A socket and the ranges of a log that its next requests read go in; what was served comes back
with the bytes of the first request that is another, and an eventfd tells when.  :mod:`logbus.net.native_fetches` is
their place in the reactor.

Where a response ends is found here, by the segment's offset index in its file: 8 bytes an entry, big-endian, a relative
offset and the position where the batch begins that ends with it (see :mod:`logbus.storage.segments.indexes`).

Each thread has connections of its own, and waits for these at one epoll. It never waits for a disk or a peer.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR, EOPNOTSUPP, EPIPE, errno
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memmove, memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec
from posix.types cimport off_t
from posix.unistd cimport close, getpid, read, write

from logbus.posix_memory cimport is_resident
from logbus.posix_sockets cimport (
    EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLIN, EPOLLOUT, F_DUPFD_CLOEXEC, MSG_NOSIGNAL,
    RWF_NOWAIT, epoll_create1, epoll_ctl, epoll_event, epoll_wait, fcntl, iovec, msghdr, preadv2, recv, sendfile,
    sendmsg,
)
from logbus.posix_threads cimport (
    EFD_CLOEXEC, EFD_NONBLOCK, eventfd, pthread_cond_init, pthread_cond_signal, pthread_cond_t, pthread_cond_wait,
    pthread_mutex_init, pthread_mutex_lock, pthread_mutex_t, pthread_mutex_unlock, start_thread,
)

import os

REVISION = 6

cdef enum:
    ROOM = 1024
    TURN = 1 << 20  # Bytes sent for one connection before others get their turn.
    PROBE = 1 << 18  # There is a look at each so many bytes of a file, whether they are in memory.
    BUCKETS = 16
    EVENTS = 16
    LOOK = 200  # Milliseconds after which there is a look whose time is over.
    PIECES = 3  # Of a response: head, records, tail.
    SMALL = 1 << 16  # Records that are copied through memory, where their batches are found.
    # Of a batch: length and what is before it, where its magic number is, and how much of it is looked at.
    OVERHEAD = 12
    MAGIC_AT = 16
    LOOKED_AT = 17
    STEPS = 64  # Batches without an index entry that are looked at for one response.
    RANGES = 8  # That a connection has at most.
    LARGEST = 0x7FFFFFFF - 2 * ROOM  # Bytes of records in a response.
    ENTRY = 8  # Of an index, in bytes.
    BLOCK = 512  # Entries that are read at once at the end of a search.


cdef struct Piece:
    const char *data  # In memory; or NULL.
    int file
    off_t position
    int64_t left


cdef struct BatchRange:
    # Whole batches of a segment, which has offsets from `base_offset` on (logbus.records.file_slice.BatchRange). The next response begins at `position`.
    int64_t base_offset
    int file
    off_t position
    off_t end
    # The offset index: entries that there are, and one that lies before what was looked up last.
    int index
    int64_t entries
    int64_t near


cdef struct Connection:
    int64_t ticket
    Thread *thread
    Connection *previous  # Of the thread's, or of those that ended.
    Connection *next
    int sock  # A duplicate: its owner may close its own.
    int error
    bint recalled
    bint writing  # It waits until the socket takes more.
    # The request that is repeated, with its length; where its session's epoch (0: nowhere) and its offset are.
    unsigned char request[ROOM]
    int size
    int epoch_at
    int offset_at
    uint32_t epoch
    # The response up to the length of its records, and what follows them.
    unsigned char head[ROOM]
    int head_size
    unsigned char tail[4]
    int tail_size
    bint compact  # Whether the length is a compact one.
    # What the next requests get: whole batches of so many bytes. Of the last range, the response that ends it must have
    # at least so many.
    BatchRange ranges[RANGES]
    int current
    int count
    int64_t most
    int64_t least
    int64_t first  # The least offset that may be read.
    int64_t until
    # What was received and is not served.
    unsigned char received[ROOM]
    int held
    int64_t since
    # What is being sent.
    Piece *piece
    Piece out[PIECES]
    # What was done.
    int64_t requests
    int64_t offset
    int64_t bytes_in
    int64_t bytes_out
    int64_t records
    int64_t nanoseconds
    int64_t counts[BUCKETS]


cdef struct Thread:
    Shared *shared
    int poll
    int wake
    Connection *connections
    unsigned char buffer[SMALL + LOOKED_AT]


cdef struct Shared:
    # What the threads share with their owner; under the lock, but for the descriptors.
    pthread_mutex_t lock
    pthread_cond_t gone
    Connection *ended
    Connection **ended_tail
    int event  # One ended.
    int running
    bint stop
    int bounds
    int64_t bound[BUCKETS]
    int number
    Thread threads[16]


cdef inline uint32_t number32(const unsigned char *at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline int64_t number64(const unsigned char *at) noexcept nogil:
    return <int64_t>((<uint64_t>number32(at) << 32) | number32(at + 4))


cdef inline void put32(unsigned char *at, uint32_t number) noexcept nogil:
    at[0], at[1], at[2], at[3] = number >> 24, (number >> 16) & 255, (number >> 8) & 255, number & 255


cdef inline int64_t now() noexcept nogil:
    cdef timespec time
    clock_gettime(CLOCK_MONOTONIC, &time)
    return <int64_t>time.tv_sec * 1000000000 + time.tv_nsec


cdef void end(Connection *one, int error) noexcept nogil:
    # Give it back. If a response was sent in part, the connection is of no more use.
    cdef Thread *thread = one.thread
    cdef Shared *shared = thread.shared
    cdef uint64_t signal = 1
    cdef bint was_empty
    epoll_ctl(thread.poll, EPOLL_CTL_DEL, one.sock, NULL)
    close(one.sock)
    one.error = error or (EPIPE if one.piece != NULL else 0)
    pthread_mutex_lock(&shared.lock)
    if one.previous != NULL:
        one.previous.next = one.next
    else:
        thread.connections = one.next
    if one.next != NULL:
        one.next.previous = one.previous
    one.next = NULL
    was_empty = shared.ended == NULL
    shared.ended_tail[0] = one
    shared.ended_tail = &one.next
    pthread_mutex_unlock(&shared.lock)
    if was_empty:
        write(shared.event, &signal, sizeof(signal))


cdef int wait_for(Connection *one, bint writing) noexcept nogil:
    # Be told when the socket takes something, or has something. Returns an error's number.
    cdef epoll_event wish
    if one.writing == writing:
        return 0
    one.writing = writing
    wish.events = EPOLLOUT if writing else EPOLLIN
    wish.data.ptr = one
    return errno if epoll_ctl(one.thread.poll, EPOLL_CTL_MOD, one.sock, &wish) != 0 else 0


cdef int push(Connection *one) noexcept nogil:
    # Send what is to be sent, at most a turn's worth. Returns an error's number; EAGAIN: there is more.
    cdef Piece *last = one.out + PIECES
    cdef Piece *each
    cdef iovec some[PIECES]
    cdef msghdr message
    cdef int64_t turn = TURN
    cdef ssize_t sent
    while True:
        while one.piece < last and one.piece.left == 0:
            one.piece += 1
        if one.piece == last:
            one.piece = NULL
            return 0
        if turn <= 0:
            return EAGAIN
        if one.piece.data == NULL:
            sent = sendfile(one.sock, one.piece.file, &one.piece.position, min(one.piece.left, turn))
            if sent == 0:
                return EPIPE  # The file ends before the slice.
        else:
            memset(&message, 0, sizeof(message))
            message.msg_iov = some
            each = one.piece
            while each < last and each.data != NULL:
                some[message.msg_iovlen].iov_base = <void *>each.data
                some[message.msg_iovlen].iov_len = each.left
                message.msg_iovlen += 1
                each += 1
            sent = sendmsg(one.sock, &message, MSG_NOSIGNAL)
        if sent < 0:
            if errno == EINTR:
                continue
            return errno
        one.bytes_out += sent
        turn -= sent
        if one.piece.data == NULL:
            one.piece.left -= sent
            continue
        while sent:
            if sent < one.piece.left:
                one.piece.data += sent
                one.piece.left -= sent
                break
            sent -= one.piece.left
            one.piece.left = 0
            one.piece += 1


cdef bint has(int file, void *target, size_t size, off_t position) noexcept nogil:
    # Read from a file what is in memory; whether it is.
    cdef iovec wish
    wish.iov_base = target
    wish.iov_len = size
    if preadv2(file, &wish, 1, position, RWF_NOWAIT) == <ssize_t>size:
        return True
    return (
        errno == EOPNOTSUPP
        and is_resident(file, position, size)
        and preadv2(file, &wish, 1, position, 0) == <ssize_t>size
    )


cdef bint is_in_memory(Piece *records) noexcept nogil:
    # Whether sending it need not wait for a disk, as far as a look here and there tells.
    cdef off_t at = records.position + PROBE
    cdef char byte
    while at < records.position + records.left:
        if not has(records.file, &byte, 1, at):
            return False
        at += PROBE
    return has(records.file, &byte, 1, records.position + records.left - 1)


cdef int64_t batch_size(const unsigned char *data, int64_t left) noexcept nogil:
    # Of a batch, with so many bytes from its beginning to the range's end; −1: there is none.
    cdef int64_t size = <int64_t>number32(data + 8) + OVERHEAD
    return -1 if data[MAGIC_AT] != 2 or size < LOOKED_AT or size > left else size


cdef int64_t last_entry(BatchRange *batches, int64_t low, int at, int64_t most, unsigned char *data) noexcept nogil:
    # The last entry of the index, from one on, whose number at a place in it is at most this; −1: there is none; −2: it
    # cannot be found here. Its bytes are at the beginning of the data then.
    cdef int64_t high = batches.entries
    cdef int64_t middle = low + BLOCK - 1  # Most responses end near where the last one did.
    while high - low > BLOCK:
        if not has(batches.index, data, ENTRY, middle * ENTRY):
            return -2
        if number32(data + at) <= most:
            low = middle
        else:
            high = middle
        middle = low + (high - low) // 2
    if low == high:
        return -1
    if not has(batches.index, data, (high - low) * ENTRY, low * ENTRY):
        return -2
    middle = high
    while middle > low and number32(data + (middle - 1 - low) * ENTRY + at) > most:
        middle -= 1
    if middle == low:
        return -1
    memmove(data, data + (middle - 1 - low) * ENTRY, ENTRY)
    return middle - 1


cdef bint seek(Connection *one, int64_t offset, unsigned char *data) noexcept nogil:
    # Go on where the batch begins that begins with an offset; whether that was found.
    cdef int chosen = one.count - 1
    cdef int steps = 0
    cdef int64_t entry
    cdef int64_t size
    cdef off_t at = 0
    cdef BatchRange *batches
    while chosen >= 0 and one.ranges[chosen].base_offset > offset:
        chosen -= 1
    if chosen < 0 or offset < one.first:
        return False
    batches = &one.ranges[chosen]
    # Entries name the last offsets of their batches.
    entry = last_entry(batches, 0, 0, offset - batches.base_offset - 1, data) if offset > batches.base_offset else -1
    if entry == -2:
        return False
    if entry >= 0:
        at = number32(data + 4)
    while batches.end - at >= LOOKED_AT and steps < STEPS and has(batches.file, data, LOOKED_AT, at):
        if number64(data) >= offset:
            break
        size = batch_size(data, batches.end - at)
        if size < 0:
            return False
        at += size
        steps += 1
    else:
        return False
    if number64(data) != offset:
        return False
    batches.position = at
    batches.near = 0
    one.current = chosen
    # All that is behind it comes again.
    while chosen + 1 < one.count:
        chosen += 1
        one.ranges[chosen].position = 0
        one.ranges[chosen].near = 0
    return True


cdef off_t fitting(Connection *one, BatchRange *batches, unsigned char *data) noexcept nogil:
    # Where a large response ends, which begins with the range; −1: that cannot be found here.
    cdef off_t start = batches.position
    cdef off_t target = start + one.most
    cdef off_t at = start
    cdef int64_t entry
    cdef int64_t size
    cdef int steps = 0
    if batches.end <= target:
        return batches.end
    entry = last_entry(batches, batches.near, 4, target, data)
    if entry == -2:
        return -1
    if entry >= 0:
        batches.near = entry
        if number32(data + 4) > start:
            # Up to an index interval less than would fit, which is cheaper than a look at each batch.
            return number32(data + 4)
    while at < batches.end:
        if steps == STEPS or batches.end - at < LOOKED_AT or not has(batches.file, data, LOOKED_AT, at):
            return -1
        size = batch_size(data, batches.end - at)
        if size < 0:
            return -1
        if at > start and at + size > target:
            break
        at += size
        steps += 1
    return at


cdef bint find(Connection *one, int64_t offset, Piece *found) noexcept nogil:
    # What the next response has, if it can be sent now to who asks for an offset.
    cdef unsigned char *data = one.thread.buffer
    cdef BatchRange *batches
    cdef int64_t left
    cdef int64_t wanted = LOOKED_AT
    cdef bint sought = False
    cdef int64_t at = 0
    cdef int64_t size
    while True:
        batches = &one.ranges[one.current]
        left = batches.end - batches.position if one.current < one.count else 0
        if one.most <= SMALL:
            wanted = min(left, one.most + LOOKED_AT)
        if left >= LOOKED_AT and has(batches.file, data, wanted, batches.position) and number64(data) == offset:
            break
        if sought or not seek(one, offset, data):
            return False
        sought = True
    found.data = NULL
    found.file, found.position = batches.file, batches.position
    if one.most > SMALL:
        found.left = fitting(one, batches, data) - batches.position
    else:
        while at + LOOKED_AT <= wanted:
            size = batch_size(data + at, left - at)
            if size < 0:
                return False
            if at and at + size > one.most:
                break
            at += size
        found.left = at
    if not 0 < found.left <= LARGEST:
        return False
    if found.left == left and one.current + 1 == one.count and left < one.least:
        return False  # How much more there is by now is not known here.
    if one.most > SMALL or at > wanted:
        return is_in_memory(found)  # The first batch alone is more.
    found.data = <const char *>data
    return True


cdef void answer(Connection *one, Piece *records, const unsigned char *request) noexcept nogil:
    # Begin to send records.
    cdef unsigned char *head = one.head
    cdef BatchRange *batches = &one.ranges[one.current]
    cdef int size = one.head_size
    cdef uint32_t length = <uint32_t>records.left
    memcpy(head + 4, request + 8, 4)  # The correlation id.
    if one.compact:
        length += 1
        while length > 127:
            head[size] = (length & 127) | 128
            length >>= 7
            size += 1
        head[size] = length
        size += 1
    else:
        put32(head + size, length)
        size += 4
    put32(head, <uint32_t>(size - 4 + records.left + one.tail_size))
    one.out[0].data, one.out[0].left = <const char *>head, size
    one.out[1] = records[0]
    one.out[2].data, one.out[2].left = <const char *>one.tail, one.tail_size
    one.piece = one.out
    one.records += records.left
    batches.position += records.left
    if batches.position == batches.end:
        one.current += 1


cdef int serve_next(Connection *one) noexcept nogil:
    # Serve the first request that was received. Returns 0: it is served, or being sent; 1: there is none; −1: the
    # thread cannot; else an error's number.
    cdef unsigned char *got = one.received
    cdef int known = min(one.held, one.size)
    cdef int64_t offset
    cdef Piece records
    # A request of another length is not waited for.
    if memcmp(got, one.request, min(known, 8)) != 0:
        return -1
    if one.held < one.size:
        return 1
    if (
        (one.epoch_at and (memcmp(got + 12, one.request + 12, one.epoch_at - 12) != 0 or number32(got + one.epoch_at) != one.epoch))
        or now() > one.until
    ):
        return -1
    known = one.epoch_at + 4 if one.epoch_at else 12
    if (
        memcmp(got + known, one.request + known, one.offset_at - known) != 0
        or memcmp(got + one.offset_at + 8, one.request + one.offset_at + 8, one.size - one.offset_at - 8) != 0
    ):
        return -1
    offset = number64(got + one.offset_at)
    if not find(one, offset, &records):
        return -1
    answer(one, &records, got)
    one.epoch += 1
    one.requests += 1
    one.offset = offset
    one.bytes_in += one.size
    one.held -= one.size
    memmove(got, got + one.size, one.held)
    return 0


cdef void served(Connection *one) noexcept nogil:
    # Count how long a request took: until the socket had taken all of its response.
    cdef Shared *shared = one.thread.shared
    cdef int64_t took = now() - one.since
    cdef int bucket = 0
    while bucket < shared.bounds and took > shared.bound[bucket]:
        bucket += 1
    one.counts[bucket] += 1
    one.nanoseconds += took


cdef void leave_buffer(Connection *one) noexcept nogil:
    # The rest of the records is sent from the file: the buffer is for others.
    cdef Piece *rest = &one.out[1]
    if rest.data != NULL:
        rest.position += rest.data - <const char *>one.thread.buffer
        rest.data = NULL


cdef void advance(Connection *one) noexcept nogil:
    # The socket has something, or takes something.
    cdef ssize_t count
    cdef int error
    cdef bint received = False
    if one.piece == NULL:
        count = recv(one.sock, one.received + one.held, ROOM - one.held, 0)
        if count > 0:
            one.held += count
            one.since = now()
        elif count == 0 or errno != EAGAIN and errno != EINTR:
            # The reactor finds the same.
            end(one, 0 if count == 0 else errno)
            return
    while True:
        if one.piece != NULL:
            error = push(one)
            if error == 0:
                served(one)
            else:
                if error == EAGAIN:
                    leave_buffer(one)
                    error = wait_for(one, True)
                if error != 0:
                    end(one, error)
                return
        if one.recalled:
            break
        if one.held == 0:
            error = 1
        else:
            error = serve_next(one)
        if error == 1:
            error = wait_for(one, False)
            if error != 0:
                end(one, error)
            return
        if error < 0:
            break
    end(one, 0)


cdef void give_back(Thread *thread, bint every) noexcept nogil:
    # End the connections that are recalled, or whose time is over, unless a response is being sent.
    cdef Shared *shared = thread.shared
    cdef Connection *one
    cdef int64_t time = now()
    while True:
        pthread_mutex_lock(&shared.lock)
        one = thread.connections
        while one != NULL and not every and (one.piece != NULL or not (one.recalled or time > one.until)):
            one = one.next
        pthread_mutex_unlock(&shared.lock)
        if one == NULL:
            return
        end(one, 0)


cdef void *run(void *argument) noexcept nogil:
    cdef Thread *thread = <Thread *>argument
    cdef Shared *shared = thread.shared
    cdef epoll_event events[EVENTS]
    cdef uint64_t number
    cdef int count
    cdef int i
    cdef bint woken
    cdef bint idle = True
    cdef bint stop = False
    cdef int64_t looked = 0
    while not stop:
        count = epoll_wait(thread.poll, events, EVENTS, -1 if idle else LOOK)
        woken = now() - looked > LOOK * <int64_t>1000000
        for i in range(count):
            if events[i].data.ptr == NULL:
                woken = True
            else:
                idle = False
                advance(<Connection *>events[i].data.ptr)
        if woken:
            read(thread.wake, &number, sizeof(number))
            pthread_mutex_lock(&shared.lock)
            stop = shared.stop
            pthread_mutex_unlock(&shared.lock)
            give_back(thread, stop)
            looked = now()
            pthread_mutex_lock(&shared.lock)
            idle = thread.connections == NULL
            pthread_mutex_unlock(&shared.lock)
    pthread_mutex_lock(&shared.lock)
    shared.running -= 1
    pthread_cond_signal(&shared.gone)
    pthread_mutex_unlock(&shared.lock)
    return NULL


cdef void close_if_open(int descriptor) noexcept:
    if descriptor >= 0:
        close(descriptor)


cdef void dispose(Shared *shared) noexcept:
    cdef Connection *one
    while shared.ended != NULL:
        one = shared.ended
        shared.ended = one.next
        free(one)
    close_if_open(shared.event)
    for i in range(shared.number):
        close_if_open(shared.threads[i].poll)
        close_if_open(shared.threads[i].wake)
    free(shared)


cdef class FetchThreads:
    """
    Threads, and the connections whose fetches they answer.

    The caller keeps the files open, until their ticket comes back, reads nothing from the socket until
    then, and shuts a socket down whose peer it gives up. All methods belong to one thread, and to the process that made
    the object: threads do not survive a fork.

    :param number: of threads.
    :param bounds: of the buckets of times, in seconds.
    """

    cdef Shared *_shared
    cdef int _process
    cdef int _turn
    cdef dict _away

    def __cinit__(self, int number, bounds):
        cdef Shared *shared
        cdef Thread *thread
        cdef epoll_event wish
        cdef int error
        if not 1 <= number <= 16:
            raise ValueError("1 to 16 threads can answer fetches")
        if len(bounds) >= BUCKETS:
            raise ValueError(f"at most {BUCKETS - 1} bounds")
        shared = <Shared *>calloc(1, sizeof(Shared))
        if shared == NULL:
            raise MemoryError
        shared.ended_tail = &shared.ended
        for bound in bounds:
            shared.bound[shared.bounds] = round(bound * 1e9)
            shared.bounds += 1
        shared.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
        error = errno if shared.event < 0 else 0
        while shared.number < number and not error:
            thread = &shared.threads[shared.number]
            shared.number += 1
            thread.shared = shared
            thread.poll = epoll_create1(EPOLL_CLOEXEC)
            thread.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
            wish.events = EPOLLIN
            wish.data.ptr = NULL
            if thread.poll < 0 or thread.wake < 0 or epoll_ctl(thread.poll, EPOLL_CTL_ADD, thread.wake, &wish) != 0:
                error = errno
        if error:
            dispose(shared)
            raise OSError(error, os.strerror(error))
        pthread_mutex_init(&shared.lock, NULL)
        pthread_cond_init(&shared.gone, NULL)
        pthread_mutex_lock(&shared.lock)
        while shared.running < number and start_thread(run, &shared.threads[shared.running]):
            shared.running += 1
        number = shared.running
        pthread_mutex_unlock(&shared.lock)
        if not number:
            dispose(shared)
            raise RuntimeError("can't start new thread")
        self._turn = number
        self._shared = shared
        self._process = getpid()
        self._away = {}

    def fileno(self):
        """A descriptor that is readable while there is something to take."""
        return -1 if self._shared == NULL else self._shared.event

    def submit(
        self, int64_t ticket, int sock, bytes request, int epoch_at, int offset_at, bytes head, bytes tail, bint compact,
        list ranges, int64_t first, int64_t most, int64_t least, double seconds
    ):
        """
        Answer the next requests that come from a non-blocking socket.

        :param request: the last one, with its length; they have the same bytes but for correlation id, epoch, offset.
        :param epoch_at: where the session's epoch is; 0: there is no session.
        :param offset_at: where the offset is.
        :param head: a response up to where the length of its records follows. ``tail``: what follows its records.
        :param compact: whether their length is a compact one.
        :param ranges: of whole batches, at most 8, which are read one after the other: the segment's base offset, its
            file, a position and an end in it; the file of its offset index, and how many entries that has. All but the
            first begin with the file.
        :param first: the least offset that may be read, also by who goes back.
        :param most: how many bytes of a range go into one response, as whole batches; the first one in any case.
        :param least: how many the response must have that ends the last batches.
        :param seconds: after which requests are not answered any more.
        :raises ValueError: the request or the head is too long, or a place is not within the request.
        :raises RuntimeError: this is a child of the process that made the object, or it was stopped.
        :raises OSError: the process has too many open files, or the system no more room.
        """
        cdef Shared *shared = self._shared
        cdef Thread *thread
        cdef Connection *one
        cdef BatchRange *batches
        cdef epoll_event wish
        cdef int error
        cdef int size = PyBytes_GET_SIZE(request)
        if shared == NULL or getpid() != self._process:
            raise RuntimeError("the threads that answer fetches were stopped, or belong to another process")
        # Behind the head comes the length.
        if (
            size > ROOM
            or PyBytes_GET_SIZE(head) > ROOM - 8
            or PyBytes_GET_SIZE(tail) > 4
            or not 12 <= offset_at <= size - 8
            or (epoch_at and not 12 <= epoch_at <= offset_at - 4)
            or most < 1
            or not 1 <= len(ranges) <= RANGES
        ):
            raise ValueError("this request cannot be answered in a thread")
        one = <Connection *>calloc(1, sizeof(Connection))
        if one == NULL:
            raise MemoryError
        try:
            for base_offset, file, position, end_, index, entries in ranges:
                batches = &one.ranges[one.count]
                batches.base_offset = base_offset
                batches.file, batches.position, batches.end = file, position, end_
                batches.index, batches.entries = index, entries
                one.count += 1
            one.sock = fcntl(sock, F_DUPFD_CLOEXEC, 0)
            if one.sock < 0:
                raise OSError(errno, os.strerror(errno))
        except BaseException:
            free(one)
            raise
        one.ticket = ticket
        one.size, one.epoch_at, one.offset_at = size, epoch_at, offset_at
        memcpy(one.request, PyBytes_AS_STRING(request), size)
        if epoch_at:
            one.epoch = number32(one.request + epoch_at) + 1
        one.head_size = PyBytes_GET_SIZE(head)
        memcpy(one.head, PyBytes_AS_STRING(head), one.head_size)
        one.tail_size = PyBytes_GET_SIZE(tail)
        memcpy(one.tail, PyBytes_AS_STRING(tail), one.tail_size)
        one.compact = compact
        one.first, one.most, one.least = first, most, least
        one.until = now() + <int64_t>(seconds * 1e9)
        self._turn = (self._turn + 1) % shared.running
        thread = one.thread = &shared.threads[self._turn]
        pthread_mutex_lock(&shared.lock)
        one.next = thread.connections
        if one.next != NULL:
            one.next.previous = one
        thread.connections = one
        pthread_mutex_unlock(&shared.lock)
        self._away[ticket] = <uint64_t>one
        # The thread has it from now on.
        wish.events = EPOLLIN
        wish.data.ptr = one
        if epoll_ctl(thread.poll, EPOLL_CTL_ADD, one.sock, &wish) != 0:
            # It comes back as it is.
            end(one, 0)

    def recall(self, int64_t ticket):
        """Have a connection given back, once the response is sent that is being sent."""
        cdef uint64_t signal = 1
        cdef Connection *one
        if self._shared == NULL or ticket not in self._away:
            return
        one = <Connection *><uint64_t>self._away[ticket]
        pthread_mutex_lock(&self._shared.lock)
        one.recalled = True
        pthread_mutex_unlock(&self._shared.lock)
        write(one.thread.wake, &signal, sizeof(signal))

    def take(self):
        """
        The connections that were given back.

        For each: ticket, requests served, the last one's offset, bytes of these requests, bytes sent, bytes of records,
        the bytes received that were not served, the error number (0: none), how many requests took how long by the
        bounds, seconds that all took.
        """
        cdef Shared *shared = self._shared
        cdef Connection *one
        cdef Connection *following
        cdef uint64_t number
        cdef list found = []
        if shared == NULL:
            return found
        pthread_mutex_lock(&shared.lock)
        one = shared.ended
        shared.ended = NULL
        shared.ended_tail = &shared.ended
        read(shared.event, &number, sizeof(number))  # What ends just now comes again.
        pthread_mutex_unlock(&shared.lock)
        while one != NULL:
            following = one.next
            del self._away[one.ticket]
            found.append((
                one.ticket, one.requests, one.offset, one.bytes_in, one.bytes_out, one.records,
                (<char *>one.received)[:one.held], one.error,
                [one.counts[i] for i in range(shared.bounds + 1)], one.nanoseconds / 1e9,
            ))
            free(one)
            one = following
        return found

    def stop(self):
        """End the threads; connections that were not given back are forgotten."""
        cdef Shared *shared = self._shared
        cdef uint64_t signal = 1
        if shared == NULL or getpid() != self._process:
            return
        self._shared = NULL
        with nogil:
            pthread_mutex_lock(&shared.lock)
            shared.stop = True
            pthread_mutex_unlock(&shared.lock)
            for i in range(shared.number):
                write(shared.threads[i].wake, &signal, sizeof(signal))
            pthread_mutex_lock(&shared.lock)
            while shared.running:
                pthread_cond_wait(&shared.gone, &shared.lock)
            pthread_mutex_unlock(&shared.lock)
        dispose(shared)
