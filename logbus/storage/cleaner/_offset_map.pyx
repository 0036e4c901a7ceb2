# cython: language_level=3, boundscheck=False, wraparound=False
"""
The compiled implementation of ``offset_map.py`` and ``record_filter.py``.

Keys are looked up where they are in a batch, without objects, and without the interpreter's lock. Every length is
compared with what is left before it is used. What is not a sound section of records is left to ``record_filter.py``.

Digests are SipHash-2-4 with 128 bits, under a key of its own for each map: nobody can make two keys of one digest.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport EINTR, errno
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, nanosleep, timespec
from posix.unistd cimport pread, pwrite

from logbus.records._crc32c cimport logbus_crc32c, logbus_crc_prepare

import os

from logbus.storage.cleaner import offset_map, record_filter
from logbus.storage.cleaner.offset_map import ENTRY_SIZE, LOAD_FACTOR
from logbus.storage.cleaner.record_filter import FilteredFile, FilteredRun, Kept
from logbus.storage.segments.index_entries import IndexEntries, IndexState

REVISION = 4

logbus_crc_prepare()

# Where a batch's fields are: see logbus/records/header.py.
cdef enum:
    HEADER_SIZE = 61
    LENGTH_OVERHEAD = 12
    LENGTH_AT = 8
    MAGIC_AT = 16
    CRC_AT = 17
    ATTRIBUTES_AT = 21
    LAST_DELTA_AT = 23
    BASE_TIMESTAMP_AT = 27
    MAX_TIMESTAMP_AT = 35
    COUNT_AT = 57
    LOG_APPEND_TIME = 0x08
    # Codec, transactional, control.
    NOT_PLAIN = 0x37
    DELETE_HORIZON = 0x40

cdef enum:
    # Bytes of a file that are read, then processed, then written; or one batch.
    BLOCK = 64 * 1024
    # Bytes that are read or written before a pause: the kernel does not interrupt a system call for a request, which
    # waits for 0.25 ms while 100 KB are written.
    PIECE = 16 * 1024
    OFFSET_ENTRY = 8
    TIME_ENTRY = 12
    # In ns. A pause is no longer when the device or another process took the time; and about how long a call takes.
    LONGEST_PAUSE = 50 * 1000 * 1000
    LONGEST_CALL = 500 * 1000 * 1000

cdef Py_ssize_t LARGEST_BLOCK = offset_map.LARGEST_BLOCK

cdef struct Entry:
    # A digest of 0 is a free place.
    uint64_t low
    uint64_t high
    int64_t offset


cdef struct Table:
    Entry *entries
    uint64_t slots
    Py_ssize_t count
    Py_ssize_t capacity
    uint64_t key0
    uint64_t key1


cdef struct Found:
    # A record: where it begins and ends, and its fields; sizes are -1 for null.
    Py_ssize_t begin
    Py_ssize_t end
    int64_t timestamp
    int64_t delta
    const uint8_t *key
    int64_t key_size
    int64_t value_size


cdef inline uint64_t rotated(uint64_t x, int bits) noexcept nogil:
    return x << bits | x >> (64 - bits)


cdef inline void rounds(uint64_t *v, int count) noexcept nogil:
    cdef int _
    for _ in range(count):
        v[0] += v[1]
        v[1] = rotated(v[1], 13) ^ v[0]
        v[0] = rotated(v[0], 32)
        v[2] += v[3]
        v[3] = rotated(v[3], 16) ^ v[2]
        v[0] += v[3]
        v[3] = rotated(v[3], 21) ^ v[0]
        v[2] += v[1]
        v[1] = rotated(v[1], 17) ^ v[2]
        v[2] = rotated(v[2], 32)


cdef inline uint64_t word(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    # Up to eight bytes, the lowest first.
    cdef uint64_t found = 0
    cdef Py_ssize_t i
    for i in range(size):
        found |= <uint64_t>data[i] << (8 * i)
    return found


cdef Entry digest(const Table *table, const uint8_t *data, Py_ssize_t size) noexcept nogil:
    # SipHash-2-4, 128 bits.
    cdef uint64_t v[4]
    cdef uint64_t m
    cdef Py_ssize_t left = size
    cdef Entry made
    v[0] = <uint64_t>0x736F6D6570736575 ^ table.key0
    v[1] = <uint64_t>0x646F72616E646F6D ^ table.key1 ^ 0xEE
    v[2] = <uint64_t>0x6C7967656E657261 ^ table.key0
    v[3] = <uint64_t>0x7465646279746573 ^ table.key1
    while left >= 8:
        m = word(data, 8)
        v[3] ^= m
        rounds(v, 2)
        v[0] ^= m
        data += 8
        left -= 8
    m = word(data, left) | <uint64_t>size << 56
    v[3] ^= m
    rounds(v, 2)
    v[0] ^= m
    v[2] ^= 0xEE
    rounds(v, 4)
    made.low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(v, 4)
    made.high = v[0] ^ v[1] ^ v[2] ^ v[3]
    if made.low == 0 and made.high == 0:
        made.high = 1
    made.offset = -1
    return made


cdef inline Entry *place(const Table *table, const Entry *wanted) noexcept nogil:
    # The entry with this digest, or the free one where it belongs. The table is never full.
    cdef uint64_t at = wanted.low % table.slots
    cdef Entry *entry
    while True:
        entry = &table.entries[at]
        if entry.low == wanted.low and entry.high == wanted.high:
            return entry
        if entry.low == 0 and entry.high == 0:
            return entry
        at += 1
        if at == table.slots:
            at = 0


cdef bint put(Table *table, const uint8_t *key, Py_ssize_t size, int64_t offset) noexcept nogil:
    cdef Entry wanted = digest(table, key, size)
    cdef Entry *entry = place(table, &wanted)
    if entry.low == 0 and entry.high == 0:
        if table.count >= table.capacity:
            return False
        table.count += 1
        entry.low, entry.high = wanted.low, wanted.high
    entry.offset = offset
    return True


cdef int64_t get(const Table *table, const uint8_t *key, Py_ssize_t size) noexcept nogil:
    cdef Entry wanted = digest(table, key, size)
    cdef Entry *entry = place(table, &wanted)
    return -1 if entry.low == 0 and entry.high == 0 else entry.offset


cdef inline bint number(const uint8_t *data, Py_ssize_t end, Py_ssize_t *pos, int most, int64_t *found) noexcept nogil:
    # A zigzag number of at most `most` bytes; a number of five has 32 bits.
    cdef uint64_t n = 0
    cdef int shift = 0, count = 0
    cdef uint8_t byte
    while True:
        if pos[0] >= end or count == most:
            return False
        byte = data[pos[0]]
        pos[0] += 1
        count += 1
        if shift == 63 and byte > 1:
            return False
        n |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if most == 5 and n >> 32:
        return False
    found[0] = <int64_t>(n >> 1) ^ -<int64_t>(n & 1)
    return True


cdef bint field(const uint8_t *data, Py_ssize_t end, Py_ssize_t *pos, int64_t *size) noexcept nogil:
    # A length and that many bytes; -1 is null.
    if not number(data, end, pos, 5, size) or size[0] < -1:
        return False
    if size[0] > 0:
        if size[0] > end - pos[0]:
            return False
        pos[0] += size[0]
    return True


cdef bint read_record(
    const uint8_t *data, Py_ssize_t end, Py_ssize_t pos, int64_t base_timestamp, Found *found
) noexcept nogil:
    # The record at a position; False: there is no sound one.
    cdef int64_t n, count, size
    cdef Py_ssize_t over
    found.begin = pos
    if not number(data, end, &pos, 5, &n) or n < 1 or n > end - pos:
        return False
    over = found.end = pos + n
    pos += 1  # its attributes
    if not number(data, over, &pos, 10, &n):
        return False
    if (n > 0 and base_timestamp > INT64_MAX - n) or (n < 0 and base_timestamp < INT64_MIN - n):
        return False
    found.timestamp = base_timestamp + n
    if not number(data, over, &pos, 5, &found.delta) or not field(data, over, &pos, &found.key_size):
        return False
    found.key = data + pos - (found.key_size if found.key_size > 0 else 0)
    if not field(data, over, &pos, &found.value_size) or not number(data, over, &pos, 5, &count) or count < 0:
        return False
    while count > 0:
        if not field(data, over, &pos, &size) or size < 0 or not field(data, over, &pos, &size):
            return False
        count -= 1
    return pos == over


cdef struct Batch:
    # A whole batch: where its records begin and it ends, and its fields.
    Py_ssize_t begin
    Py_ssize_t records
    Py_ssize_t end
    int64_t base
    int64_t last
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t count
    int attributes


cdef inline uint64_t big(const uint8_t *data, int size) noexcept nogil:
    # An unsigned number, the highest byte first.
    cdef uint64_t found = 0
    cdef int i
    for i in range(size):
        found = found << 8 | data[i]
    return found


cdef inline void store_big(uint8_t *data, int size, uint64_t n) noexcept nogil:
    cdef int i
    for i in range(size):
        data[size - 1 - i] = <uint8_t>(n & 0xFF)
        n >>= 8


cdef bint read_batch(const uint8_t *data, Py_ssize_t end, Py_ssize_t pos, Batch *found) noexcept nogil:
    # The header of the batch at a position; False: there is no whole batch.
    cdef int64_t length
    if end - pos < HEADER_SIZE:
        return False
    data += pos
    length = <int32_t><uint32_t>big(data + LENGTH_AT, 4)
    if data[MAGIC_AT] != 2 or length < HEADER_SIZE - LENGTH_OVERHEAD or length > end - pos - LENGTH_OVERHEAD:
        return False
    found.begin = pos
    found.records = pos + HEADER_SIZE
    found.end = pos + length + LENGTH_OVERHEAD
    found.base = <int64_t>big(data, 8)
    found.attributes = <int>big(data + ATTRIBUTES_AT, 2)
    found.last = <int32_t><uint32_t>big(data + LAST_DELTA_AT, 4)
    found.base_timestamp = <int64_t>big(data + BASE_TIMESTAMP_AT, 8)
    found.max_timestamp = <int64_t>big(data + MAX_TIMESTAMP_AT, 8)
    found.count = <int32_t><uint32_t>big(data + COUNT_AT, 4)
    return True


cdef bint is_intact(const uint8_t *data, const Batch *batch) noexcept nogil:
    # Whether offsets and checksum of a batch are sound.
    cdef const uint8_t *begin = data + batch.begin
    return (
        batch.base >= 0
        and 0 <= batch.last <= INT64_MAX - batch.base
        and logbus_crc32c(begin + ATTRIBUTES_AT, batch.end - batch.begin - ATTRIBUTES_AT, False) == big(begin + CRC_AT, 4)
    )


def checksum(const uint8_t[::1] data not None, bint by_table):
    """CRC-32C, for tests: by the processor's instruction, or by tables as where there is none."""
    return logbus_crc32c(&data[0] if data.shape[0] else NULL, data.shape[0], by_table)


cdef struct Index:
    # An `IndexState`, and the entries made: as many as there is room for.
    int64_t base
    int64_t interval
    int64_t indexed
    int64_t first
    int64_t latest
    int64_t latest_offset
    int64_t time_indexed
    int64_t end
    int32_t *offsets
    uint8_t *times
    Py_ssize_t offset_count
    Py_ssize_t time_count
    Py_ssize_t room


cdef Index index_of(object state):
    cdef Index index = Index(
        state[0], state[1], state[2], state[3], state[4], state[5], state[6], state[7], NULL, NULL, 0, 0, 0
    )
    return index


cdef bint make_room(Index *index, Py_ssize_t size) noexcept nogil:
    # For the entries of so many bytes of batches. False: there is no memory.
    cdef Py_ssize_t needed = index.offset_count + size // HEADER_SIZE + 1
    cdef int32_t *offsets
    cdef uint8_t *times
    if needed <= index.room:
        return True
    needed = max(needed, 2 * index.room)
    offsets = <int32_t *>realloc(index.offsets, needed * OFFSET_ENTRY)
    if offsets == NULL:
        return False
    index.offsets = offsets
    times = <uint8_t *>realloc(index.times, needed * TIME_ENTRY)
    if times == NULL:
        return False
    index.times, index.room = times, needed
    return True


cdef void add_entries(Index *index, const uint8_t *data, Py_ssize_t size, int64_t start) noexcept nogil:
    # As `index_batches`. There is room.
    cdef Batch batch
    cdef Py_ssize_t pos = 0
    cdef int64_t position, last
    cdef uint8_t *entry
    while read_batch(data, size, pos, &batch):
        position, last = start + pos, batch.base + batch.last
        if batch.max_timestamp > index.latest:
            index.latest, index.latest_offset = batch.max_timestamp, last
        if position - index.indexed > index.interval and last - index.base <= INT32_MAX:
            index.offsets[2 * index.offset_count] = <int32_t>(last - index.base)
            index.offsets[2 * index.offset_count + 1] = <int32_t>position
            index.offset_count += 1
            index.indexed = position
            if index.latest > index.time_indexed:
                entry = index.times + TIME_ENTRY * index.time_count
                store_big(entry, 8, <uint64_t>index.latest)
                store_big(entry + 8, 4, <uint64_t>(index.latest_offset - index.base))
                index.time_count += 1
                index.time_indexed = index.latest
        elif position == 0:
            index.first = batch.max_timestamp
        index.end, pos = last + 1, batch.end


cdef object entries_of(const Index *index):
    return IndexEntries(
        PyBytes_FromStringAndSize(<char *>index.offsets, index.offset_count * OFFSET_ENTRY),
        PyBytes_FromStringAndSize(<char *>index.times, index.time_count * TIME_ENTRY),
        IndexState(
            index.base, index.interval, index.indexed, index.first, index.latest, index.latest_offset,
            index.time_indexed, index.end,
        ),
    )


def index_batches(const uint8_t[::1] data not None, int64_t start, state not None):
    """See ``index_entries.py``."""
    cdef Index index = index_of(state)
    try:
        if not make_room(&index, data.shape[0]):
            raise MemoryError
        if data.shape[0]:
            with nogil:
                add_entries(&index, &data[0], data.shape[0], start)
        return entries_of(&index)
    finally:
        free(index.offsets)
        free(index.times)


cdef bint has(const int64_t *numbers, Py_ssize_t count, int64_t wanted) noexcept nogil:
    # Whether a number is among sorted ones.
    cdef Py_ssize_t low = 0, middle
    while low < count:
        middle = (low + count) // 2
        if numbers[middle] < wanted:
            low = middle + 1
        elif numbers[middle] > wanted:
            count = middle
        else:
            return True
    return False


cdef void put_run(
    Table *table, const uint8_t *data, Py_ssize_t size, int64_t start, Py_ssize_t *position, int64_t *end
) noexcept nogil:
    # Puts the keys of plain batches into the map, as `put_batches`.
    cdef int64_t delta, n
    cdef Py_ssize_t at
    cdef bint is_done
    cdef Batch batch
    cdef Found found
    while read_batch(data, size, position[0], &batch):
        if batch.attributes & NOT_PLAIN or not is_intact(data, &batch):
            return
        at, delta, is_done = batch.records, -1, True
        for n in range(batch.count):
            if not read_record(data, batch.end, at, batch.base_timestamp, &found) or not (
                delta < found.delta <= batch.last
            ):
                is_done = False
                break
            delta, at = found.delta, found.end
            if found.key_size >= 0 and batch.base + delta >= start:
                if not put(table, found.key, found.key_size, batch.base + delta):
                    is_done = False
                    break
        if not is_done or at != batch.end:
            return
        end[0] = batch.base + batch.last + 1
        position[0] = batch.end


cdef struct Filtered:
    # What stays of a run of batches: the bytes written, and the other fields of `FilteredRun`.
    Py_ssize_t position
    Py_ssize_t written
    Py_ssize_t dropped
    int64_t records
    int64_t removed
    int64_t changed
    int64_t keyless


cdef struct Rule:
    # What decides which records stay.
    const Table *table
    int64_t end
    const int64_t *lasts
    Py_ssize_t count


cdef struct Tally:
    # Of the records of one batch that stay: their bytes and number, how many have no key, whether there are tombstones,
    # and the latest timestamp.
    Py_ssize_t size
    int64_t kept
    int64_t keyless
    int64_t latest
    bint tombstones


cdef inline void keep(
    const Table *table, const uint8_t *data, const Found *found, int64_t offset, int64_t end, bint drop_tombstones,
    uint8_t *out, Tally *tally
) noexcept nogil:
    # Copies a record behind the others that stay, if it stays.
    if offset < end:
        if found.key_size < 0:
            tally.keyless += 1
        elif (found.value_size < 0 and drop_tombstones) or get(table, found.key, found.key_size) > offset:
            return
    tally.kept += 1
    tally.latest = max(tally.latest, found.timestamp)
    if found.value_size < 0 and found.key_size >= 0:
        tally.tombstones = True
    memcpy(out + tally.size, data + found.begin, found.end - found.begin)
    tally.size += found.end - found.begin


cdef void filter_run(
    const Rule *rule, const uint8_t *data, Py_ssize_t size, uint8_t *out, Filtered *run
) noexcept nogil:
    # Copies what stays of plain batches, from `run.position` on, as `filter_batches`. `out` has room for all of them.
    cdef int64_t delta, n
    cdef Py_ssize_t at, length
    cdef bint is_sound
    cdef uint8_t *header
    cdef Batch batch
    cdef Found found
    cdef Tally tally
    while read_batch(data, size, run.position, &batch):
        length = batch.end - batch.begin
        if batch.base >= rule.end:
            memcpy(out + run.written, data + batch.begin, length)
            run.written += length
            run.position, run.dropped = batch.end, -1
            continue
        if batch.attributes & (NOT_PLAIN | DELETE_HORIZON) or batch.count < 1 or not is_intact(data, &batch):
            return
        header = out + run.written
        at, delta, is_sound = batch.records, -1, True
        tally = Tally(0, 0, 0, INT64_MIN, False)
        for n in range(batch.count):
            if not read_record(data, batch.end, at, batch.base_timestamp, &found) or not (
                delta < found.delta <= batch.last
            ):
                is_sound = False
                break
            delta, at = found.delta, found.end
            keep(rule.table, data, &found, batch.base + delta, rule.end, False, header + HEADER_SIZE, &tally)
        if not is_sound or at != batch.end:
            return
        if tally.tombstones and batch.base + batch.last < rule.end:
            return  # They get a delete horizon.
        if tally.kept == 0:
            if has(rule.lasts, rule.count, batch.base + batch.last):
                return  # It may be the last of a producer.
            run.dropped = batch.begin
            run.changed += 1
        else:
            memcpy(header, data + batch.begin, HEADER_SIZE)
            length = HEADER_SIZE + tally.size
            run.dropped = -1
            if tally.kept < batch.count:
                run.changed += 1
                store_big(header + LENGTH_AT, 4, <uint64_t>(length - LENGTH_OVERHEAD))
                if not batch.attributes & LOG_APPEND_TIME:
                    store_big(header + MAX_TIMESTAMP_AT, 8, <uint64_t>tally.latest)
                store_big(header + COUNT_AT, 4, <uint64_t>tally.kept)
                store_big(
                    header + CRC_AT, 4, logbus_crc32c(header + ATTRIBUTES_AT, length - ATTRIBUTES_AT, False)
                )
            run.written += length
        run.records += batch.count
        run.removed += batch.count - tally.kept
        run.keyless += tally.keyless
        run.position = batch.end


cdef inline int64_t now() noexcept nogil:
    cdef timespec at
    clock_gettime(CLOCK_MONOTONIC, &at)
    return <int64_t>at.tv_sec * 1000000000 + at.tv_nsec


cdef inline int64_t pause(int64_t begun, double ratio) noexcept nogil:
    # Sleeps for so many times as long as was worked since then. Returns when the next work begins.
    cdef timespec span
    cdef int64_t length = <int64_t>((now() - begun) * ratio)
    if length > 0:
        length = min(length, <int64_t>LONGEST_PAUSE)
        span.tv_sec, span.tv_nsec = length // 1000000000, length % 1000000000
        nanosleep(&span, NULL)
    return now()


cdef inline bint is_left(const uint8_t *data, Py_ssize_t size, int64_t end) noexcept nogil:
    # Whether the first batch is of a kind that is left to others: it is not worth a pause to find that out.
    return size >= HEADER_SIZE and data[ATTRIBUTES_AT + 1] & NOT_PLAIN and <int64_t>big(data, 8) < end


cdef Py_ssize_t read_block(
    int fd, uint8_t *data, Py_ssize_t size, int64_t position, double ratio, int64_t end
) noexcept nogil:
    # With pauses. Returns the bytes read: fewer if there are not more, they cannot be read, or are left to others.
    cdef Py_ssize_t done = 0, count
    cdef int64_t begun = now()
    while done < size:
        count = pread(fd, data + done, min(size - done, <Py_ssize_t>PIECE), position + done)
        if count < 0 and errno == EINTR:
            continue
        if count <= 0:
            break
        done += count
        if done == count and is_left(data, done, end):
            break
        begun = pause(begun, ratio)
    return done


cdef bint write_block(int fd, const uint8_t *data, Py_ssize_t size, int64_t position, double ratio) noexcept nogil:
    # With pauses.
    cdef Py_ssize_t done = 0, count
    cdef int64_t begun = now()
    while done < size:
        count = pwrite(fd, data + done, min(size - done, <Py_ssize_t>PIECE), position + done)
        if count < 0 and errno == EINTR:
            continue
        if count <= 0:
            return False
        done += count
        begun = pause(begun, ratio)
    return True


cdef Py_ssize_t larger(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    # The size of the batch at the beginning, if it is plausible, and there is more of it; otherwise 0.
    cdef int64_t length
    if size < HEADER_SIZE or data[MAGIC_AT] != 2:
        return 0
    length = <int64_t>big(data + LENGTH_AT, 4) + LENGTH_OVERHEAD
    return <Py_ssize_t>length if size < length <= LARGEST_BLOCK else 0


cdef class OffsetMap:
    """See ``offset_map.py``."""

    cdef Table _table

    def __cinit__(self, object size):
        cdef object slots = max(2, size // ENTRY_SIZE)
        cdef bytes secret = os.urandom(16)
        self._table.slots = slots
        self._table.capacity = max(1, int(slots * LOAD_FACTOR))
        self._table.key0 = word(<const uint8_t *>PyBytes_AS_STRING(secret), 8)
        self._table.key1 = word(<const uint8_t *>PyBytes_AS_STRING(secret) + 8, 8)
        # The kernel provides pages when they are first used: a few keys in a large table cost little.
        self._table.entries = <Entry *>calloc(self._table.slots, sizeof(Entry))
        if self._table.entries == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._table.entries)

    def __len__(self):
        return self._table.count

    @property
    def capacity(self):
        return self._table.capacity

    def put(self, bytes key not None, int64_t offset):
        return put(&self._table, <const uint8_t *>PyBytes_AS_STRING(key), len(key), offset)

    def get(self, bytes key not None):
        return get(&self._table, <const uint8_t *>PyBytes_AS_STRING(key), len(key))

    def clear(self):
        """See ``offset_map.py``."""
        cdef Entry *entries = self._table.entries
        cdef Entry *few = <Entry *>calloc(2, sizeof(Entry))
        if few == NULL:
            raise MemoryError
        self._table.entries, self._table.slots = few, 2
        self._table.count, self._table.capacity = 0, 1
        with nogil:
            free(entries)

    def put_batches(self, data not None, Py_ssize_t position, int64_t start):
        cdef Py_buffer view
        cdef int64_t end = -1
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            with nogil:
                put_run(&self._table, <const uint8_t *>view.buf, view.len, start, &position, &end)
        finally:
            PyBuffer_Release(&view)
        return position, end

    def put_file(self, int fd, int64_t position, int64_t size, int64_t most, double ratio, int64_t start):
        """See ``offset_map.py``."""
        cdef int64_t end = -1, first = position, begun, started = now()
        cdef Py_ssize_t capacity = BLOCK, count, done
        cdef uint8_t *data
        with nogil:
            data = <uint8_t *>malloc(capacity)
            while data != NULL and position < size and position - first < most and now() - started < LONGEST_CALL:
                done = 0
                count = read_block(
                    fd, data, min(capacity, <Py_ssize_t>(size - position)), position, ratio, INT64_MAX
                )
                if is_left(data, count, INT64_MAX):
                    break
                begun = now()
                put_run(&self._table, data, count, start, &done, &end)
                position += done
                if done == 0:
                    count = larger(data, count)
                    if count <= capacity:
                        break
                    free(data)
                    capacity = count
                    data = <uint8_t *>malloc(capacity)
                pause(begun, ratio)
            free(data)
        return position, end

    def filter_batches(self, data not None, Py_ssize_t position, int64_t end, bytes last_offsets not None):
        cdef Py_buffer view
        cdef Rule rule = self._rule(end, last_offsets)
        cdef Filtered run = Filtered(position, 0, -1, 0, 0, 0, 0)
        cdef uint8_t *out
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        out = <uint8_t *>malloc(view.len - position if view.len > position else 1)
        try:
            if out == NULL:
                raise MemoryError
            with nogil:
                filter_run(&rule, <const uint8_t *>view.buf, view.len, out, &run)
            return FilteredRun(
                run.position, PyBytes_FromStringAndSize(<char *>out, run.written), run.records, run.removed,
                run.changed, run.keyless, run.dropped,
            )
        finally:
            free(out)
            PyBuffer_Release(&view)

    def filter_file(
        self, int fd, int64_t position, int64_t size, int64_t most, double ratio, int64_t end,
        bytes last_offsets not None, int out_fd, int64_t written, state not None,
    ):
        """See ``offset_map.py``."""
        cdef Rule rule = self._rule(end, last_offsets)
        cdef Index index = index_of(state)
        cdef Filtered total = Filtered(0, 0, -1, 0, 0, 0, 0), run
        cdef int64_t first = position, begun, started = now()
        cdef Py_ssize_t capacity = BLOCK, count
        cdef uint8_t header[HEADER_SIZE]
        cdef uint8_t *data
        cdef uint8_t *out
        with nogil:
            data, out = <uint8_t *>malloc(capacity), <uint8_t *>malloc(capacity)
            while (
                data != NULL and out != NULL and make_room(&index, capacity)
                and position < size and position - first < most and now() - started < LONGEST_CALL
            ):
                count = read_block(fd, data, min(capacity, <Py_ssize_t>(size - position)), position, ratio, end)
                if is_left(data, count, end):
                    break
                begun = now()
                run = Filtered(0, 0, -1, 0, 0, 0, 0)
                filter_run(&rule, data, count, out, &run)
                if run.position == 0:
                    count = larger(data, count)
                    if count <= capacity:
                        break
                    free(data)
                    free(out)
                    capacity = count
                    data, out = <uint8_t *>malloc(capacity), <uint8_t *>malloc(capacity)
                    continue
                pause(begun, ratio)
                if not write_block(out_fd, out, run.written, written, ratio):
                    break  # Whoever writes there next meets the error, and says it.
                add_entries(&index, out, run.written, written)
                if run.dropped >= 0:
                    memcpy(header, data + run.dropped, HEADER_SIZE)
                total.dropped = run.dropped
                total.written += run.written
                total.records += run.records
                total.removed += run.removed
                total.changed += run.changed
                total.keyless += run.keyless
                written += run.written
                position += run.position
            free(data)
            free(out)
        try:
            return FilteredFile(
                position, total.written, entries_of(&index), total.records, total.removed, total.changed, total.keyless,
                PyBytes_FromStringAndSize(<char *>header, HEADER_SIZE) if total.dropped >= 0 else None,
            )
        finally:
            free(index.offsets)
            free(index.times)

    cdef Rule _rule(self, int64_t end, bytes last_offsets):
        return Rule(
            &self._table, end, <const int64_t *>PyBytes_AS_STRING(last_offsets),
            len(last_offsets) // <Py_ssize_t>sizeof(int64_t),
        )

    def put_records(self, section not None, int64_t start):
        cdef Py_buffer view
        cdef int64_t base = section.base_offset, last = section.last_offset_delta, base_timestamp = section.base_timestamp
        cdef int64_t count = section.record_count, delta = -1, n, full = -1
        cdef Py_ssize_t pos = 0
        cdef bint is_sound = 0 <= last <= INT64_MAX - base
        cdef Found found
        PyObject_GetBuffer(section.data, &view, PyBUF_SIMPLE)
        try:
            with nogil:
                for n in range(count):
                    if not is_sound:
                        break
                    is_sound = read_record(<const uint8_t *>view.buf, view.len, pos, base_timestamp, &found)
                    if not is_sound or found.delta <= delta or found.delta > last:
                        is_sound = False
                        break
                    delta, pos = found.delta, found.end
                    if full < 0 and found.key_size >= 0 and base + delta >= start:
                        if not put(&self._table, found.key, found.key_size, base + delta):
                            full = base + delta
                is_sound = is_sound and pos == view.len
        finally:
            PyBuffer_Release(&view)
        return full if is_sound else record_filter.put_records(self, section, start)

    def keep_records(self, section not None, int64_t end, bint drop_tombstones):
        cdef Py_buffer view
        cdef int64_t base = section.base_offset, last = section.last_offset_delta, base_timestamp = section.base_timestamp
        cdef int64_t count = section.record_count, delta = -1, n
        cdef Py_ssize_t pos = 0
        cdef bint is_sound = 0 <= last <= INT64_MAX - base
        cdef Tally tally = Tally(0, 0, 0, INT64_MIN, False)
        cdef const uint8_t *data
        cdef uint8_t *out
        cdef bytes made
        cdef Found found
        PyObject_GetBuffer(section.data, &view, PyBUF_SIMPLE)
        # What is behind the last record that stays is not used.
        out = <uint8_t *>malloc(view.len or 1)
        try:
            if out == NULL:
                raise MemoryError
            data = <const uint8_t *>view.buf
            with nogil:
                for n in range(count):
                    if not is_sound:
                        break
                    is_sound = read_record(data, view.len, pos, base_timestamp, &found)
                    if not is_sound or found.delta <= delta or found.delta > last:
                        is_sound = False
                        break
                    delta, pos = found.delta, found.end
                    keep(&self._table, data, &found, base + delta, end, drop_tombstones, out, &tally)
                is_sound = is_sound and pos == view.len
            if not is_sound:
                return record_filter.keep_records(self, section, end, drop_tombstones)
            made = None if tally.kept == count else PyBytes_FromStringAndSize(<char *>out, tally.size)
            return Kept(made, tally.kept, tally.keyless, tally.tombstones, tally.latest if tally.kept else -1)
        finally:
            free(out)
            PyBuffer_Release(&view)
