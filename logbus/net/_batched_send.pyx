# cython: language_level=3
"""
Sends to many sockets by one system call, through a ring of the kernel's (io_uring), or one after the other where there is
none. :mod:`logbus.net.response_batch` says why.

Each send is done, or refused, when the call returns: none waits for its socket, and none is under way afterwards.
"""

from libc.errno cimport EAGAIN, EINTR, EINVAL, EIO, EOPNOTSUPP, errno
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from posix.mman cimport MAP_FAILED, MAP_POPULATE, MAP_SHARED, PROT_READ, PROT_WRITE, mmap, munmap
from posix.unistd cimport close, getpid

from logbus.posix_sockets cimport MSG_DONTWAIT, MSG_NOSIGNAL, send

REVISION = 2

cdef extern from "<sys/syscall.h>" nogil:
    long syscall(long, ...)
    int SYS_io_uring_setup
    int SYS_io_uring_enter

cdef extern from "<linux/io_uring.h>" nogil:
    struct io_uring_sqe:
        uint8_t opcode
        int32_t fd
        uint64_t addr
        uint32_t len
        uint32_t msg_flags
        uint64_t user_data
    struct io_uring_cqe:
        uint64_t user_data
        int32_t res
    struct io_sqring_offsets:
        uint32_t head, tail, ring_mask, array
    struct io_cqring_offsets:
        uint32_t head, tail, ring_mask, cqes
    struct io_uring_params:
        uint32_t sq_entries, cq_entries, features
        io_sqring_offsets sq_off
        io_cqring_offsets cq_off
    enum:
        IORING_OP_SEND, IORING_ENTER_GETEVENTS, IORING_FEAT_SINGLE_MMAP, IORING_OFF_SQ_RING, IORING_OFF_SQES

cdef extern from * nogil:
    """
    static inline unsigned load_acquire(unsigned *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
    static inline void store_release(unsigned *at, unsigned value) { __atomic_store_n(at, value, __ATOMIC_RELEASE); }
    """
    unsigned load_acquire(unsigned *)
    void store_release(unsigned *, unsigned)

cdef enum:
    MOST = 128  # Sends of one call of the kernel.


cdef struct Send:
    int sock
    const char *data
    size_t size
    int taken  # Bytes, or the error's number as a negative one.


cdef struct Ring:
    int descriptor
    void *queues
    size_t queues_size
    io_uring_sqe *entries
    size_t entries_size
    unsigned *tail
    unsigned mask
    unsigned *array
    unsigned *ended_head
    unsigned *ended_tail
    unsigned ended_mask
    io_uring_cqe *ended


cdef bint set_up(Ring *ring) noexcept nogil:
    # Returns whether the kernel gives us a ring: containers often forbid it.
    cdef io_uring_params given
    cdef char *base
    cdef size_t ended_size
    memset(&given, 0, sizeof(given))
    ring.descriptor = <int>syscall(SYS_io_uring_setup, MOST, &given)
    if ring.descriptor < 0:
        return False
    ring.queues_size = given.sq_off.array + given.sq_entries * sizeof(unsigned)
    ended_size = given.cq_off.cqes + given.cq_entries * sizeof(io_uring_cqe)
    ring.queues_size = max(ring.queues_size, ended_size)
    ring.entries_size = given.sq_entries * sizeof(io_uring_sqe)
    ring.queues = ring.entries = NULL
    if given.features & IORING_FEAT_SINGLE_MMAP:
        ring.queues = mapped(ring.descriptor, ring.queues_size, IORING_OFF_SQ_RING)
        ring.entries = <io_uring_sqe *>mapped(ring.descriptor, ring.entries_size, IORING_OFF_SQES)
    if ring.queues == NULL or ring.entries == NULL:
        give_back(ring)
        return False
    base = <char *>ring.queues
    ring.tail = <unsigned *>(base + given.sq_off.tail)
    ring.mask = (<unsigned *>(base + given.sq_off.ring_mask))[0]
    ring.array = <unsigned *>(base + given.sq_off.array)
    ring.ended_head = <unsigned *>(base + given.cq_off.head)
    ring.ended_tail = <unsigned *>(base + given.cq_off.tail)
    ring.ended_mask = (<unsigned *>(base + given.cq_off.ring_mask))[0]
    ring.ended = <io_uring_cqe *>(base + given.cq_off.cqes)
    return True


cdef void *mapped(int descriptor, size_t size, uint64_t offset) noexcept nogil:
    cdef void *found = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, offset)
    return NULL if found == MAP_FAILED else found


cdef void give_back(Ring *ring) noexcept nogil:
    if ring.queues != NULL:
        munmap(ring.queues, ring.queues_size)
    if ring.entries != NULL:
        munmap(ring.entries, ring.entries_size)
    close(ring.descriptor)


cdef bint submit(Ring *ring, Send *sends, unsigned count) noexcept nogil:
    # At most MOST; returns whether the ring may be used again.
    cdef unsigned tail = ring.tail[0]
    cdef unsigned index, head, end, done = 0, submitted = 0
    cdef io_uring_sqe *entry
    cdef io_uring_cqe *ended
    cdef long result
    cdef bint usable = True
    for index in range(count):
        entry = &ring.entries[tail & ring.mask]
        memset(entry, 0, sizeof(io_uring_sqe))
        entry.opcode = IORING_OP_SEND
        entry.fd = sends[index].sock
        entry.addr = <uint64_t>sends[index].data
        entry.len = <uint32_t>sends[index].size
        # Without waiting: a socket that takes nothing says EAGAIN at once.
        entry.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL
        entry.user_data = index
        ring.array[tail & ring.mask] = tail & ring.mask
        tail += 1
    store_release(ring.tail, tail)
    while done < count:
        result = syscall(
            SYS_io_uring_enter, ring.descriptor, count - submitted, count - done, IORING_ENTER_GETEVENTS, NULL, 0
        )
        if result >= 0:
            submitted += <unsigned>result
        elif errno != EINTR:
            # What the kernel did not take was not sent; of the others nobody knows.
            for index in range(submitted, count):
                sends[index].taken = -EAGAIN
            return False
        head, end = ring.ended_head[0], load_acquire(ring.ended_tail)
        while head != end:
            ended = &ring.ended[head & ring.ended_mask]
            sends[ended.user_data].taken = ended.res
            if ended.res == -EINVAL or ended.res == -EOPNOTSUPP:
                # Kernels before 5.6 have rings that know no sends, and so has gVisor: nothing is wrong with the socket.
                sends[ended.user_data].taken = -EAGAIN
                usable = False
            head += 1
            done += 1
        store_release(ring.ended_head, head)
    return usable


cdef void send_one(Send *one) noexcept nogil:
    cdef ssize_t taken = -1
    while True:
        taken = send(one.sock, one.data, one.size, MSG_DONTWAIT | MSG_NOSIGNAL)
        if taken >= 0 or errno != EINTR:
            break
    one.taken = <int>taken if taken >= 0 else -errno


cdef class BatchedSend:
    """
    Sends to many sockets by one call.

    Belongs to one thread. A child of the process that made it has no ring.

    :param with_ring: whether to ask the kernel for a ring.
    :ivar has_ring: whether there is one.
    """

    cdef Ring _ring
    cdef readonly bint has_ring
    cdef int _process
    cdef Send _sends[MOST]

    def __cinit__(self, bint with_ring=True):
        self._process = getpid()
        self.has_ring = with_ring and set_up(&self._ring)

    def __dealloc__(self):
        if self.has_ring:
            give_back(&self._ring)

    def send(self, list sockets, list data):
        """
        Send to each of these descriptors the bytes at the same place of the other list, at most 128.

        :returns: of each the bytes that its socket took, or the error's number as a negative number.
        """
        cdef Py_ssize_t count = len(sockets)
        cdef Py_ssize_t index
        cdef bytes one
        cdef bint usable = True
        if count > MOST or len(data) != count:
            raise ValueError("at most 128 sockets, and as many bytes objects")
        for index in range(count):
            one = data[index]
            self._sends[index] = Send(<int>sockets[index], one, len(one), -EIO)
        with nogil:
            if self.has_ring and count > 1 and getpid() == self._process:
                usable = submit(&self._ring, self._sends, <unsigned>count)
            else:
                for index in range(count):
                    send_one(&self._sends[index])
        if not usable:
            self.has_ring = False
            give_back(&self._ring)
        return [self._sends[index].taken for index in range(count)]
