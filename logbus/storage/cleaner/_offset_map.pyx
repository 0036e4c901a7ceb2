# cython: language_level=3, boundscheck=False, wraparound=False
"""
The compiled implementation of ``offset_map.py`` and ``record_filter.py``.

Keys are looked up where they are in a batch, without objects, and without the interpreter's lock. Every length is
compared with what is left before it is used. What is not a sound section of records is left to ``record_filter.py``.

Digests are SipHash-2-4 with 128 bits, under a key of its own for each map: nobody can make two keys of one digest.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from logbus.records._crc32c cimport logbus_crc32c, logbus_crc_prepare

import os

from logbus.storage.cleaner import record_filter
from logbus.storage.cleaner.offset_map import ENTRY_SIZE, LOAD_FACTOR
from logbus.storage.cleaner.record_filter import FilteredRun, Kept

REVISION = 2

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


def index_points(const uint8_t[::1] data not None, int64_t start, int64_t indexed, int64_t interval, int64_t latest):
    """See ``record_filter.py``."""
    cdef list found = []
    cdef Batch batch
    cdef Py_ssize_t pos = 0, best = -1
    cdef const uint8_t *begin = &data[0] if data.shape[0] else NULL
    while read_batch(begin, data.shape[0], pos, &batch):
        if batch.max_timestamp > latest:
            latest, best = batch.max_timestamp, pos
        if start + pos - indexed > interval:
            if 0 <= best < pos:
                found.append(best)
            found.append(pos)
            indexed, best = start + pos, -1
        elif start + pos == 0:
            found.append(pos)
            best = -1
        pos = batch.end
    if best >= 0:
        found.append(best)
    return found


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

    def put_batches(self, data not None, Py_ssize_t position, int64_t start):
        cdef Py_buffer view
        cdef const uint8_t *begin
        cdef int64_t end = -1, delta, n
        cdef Py_ssize_t at
        cdef bint is_done
        cdef Batch batch
        cdef Found found
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            begin = <const uint8_t *>view.buf
            with nogil:
                while read_batch(begin, view.len, position, &batch):
                    if batch.attributes & NOT_PLAIN or not is_intact(begin, &batch):
                        break
                    at, delta, is_done = batch.records, -1, True
                    for n in range(batch.count):
                        if not read_record(begin, batch.end, at, batch.base_timestamp, &found) or not (
                            delta < found.delta <= batch.last
                        ):
                            is_done = False
                            break
                        delta, at = found.delta, found.end
                        if found.key_size >= 0 and batch.base + delta >= start:
                            if not put(&self._table, found.key, found.key_size, batch.base + delta):
                                is_done = False
                                break
                    if not is_done or at != batch.end:
                        break
                    end = batch.base + batch.last + 1
                    position = batch.end
        finally:
            PyBuffer_Release(&view)
        return position, end

    def filter_batches(self, data not None, Py_ssize_t position, int64_t end, bytes last_offsets not None):
        cdef Py_buffer view
        cdef const uint8_t *begin
        cdef const int64_t *lasts = <const int64_t *>PyBytes_AS_STRING(last_offsets)
        cdef Py_ssize_t count = len(last_offsets) // <Py_ssize_t>sizeof(int64_t)
        cdef int64_t records = 0, removed = 0, changed = 0, keyless = 0, without_key, delta, kept, latest, n
        cdef Py_ssize_t at, written = 0, over, dropped = -1, size
        cdef bint is_sound, tombstones
        cdef uint8_t *out
        cdef uint8_t *header
        cdef Batch batch
        cdef Found found
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        out = <uint8_t *>malloc(view.len - position if view.len > position else 1)
        try:
            if out == NULL:
                raise MemoryError
            begin = <const uint8_t *>view.buf
            with nogil:
                while read_batch(begin, view.len, position, &batch):
                    size = batch.end - batch.begin
                    if batch.base >= end:
                        memcpy(out + written, begin + batch.begin, size)
                        written += size
                        position, dropped = batch.end, -1
                        continue
                    if batch.attributes & (NOT_PLAIN | DELETE_HORIZON) or batch.count < 1 or not is_intact(begin, &batch):
                        break
                    header, over = out + written, written + HEADER_SIZE
                    at, delta, is_sound, tombstones = batch.records, -1, True, False
                    kept, without_key, latest = 0, 0, INT64_MIN
                    for n in range(batch.count):
                        if not read_record(begin, batch.end, at, batch.base_timestamp, &found) or not (
                            delta < found.delta <= batch.last
                        ):
                            is_sound = False
                            break
                        delta, at = found.delta, found.end
                        if batch.base + delta < end:
                            if found.key_size < 0:
                                without_key += 1
                            elif get(&self._table, found.key, found.key_size) > batch.base + delta:
                                continue
                        kept += 1
                        if found.timestamp > latest:
                            latest = found.timestamp
                        if found.value_size < 0 and found.key_size >= 0:
                            tombstones = True
                        memcpy(out + over, begin + found.begin, found.end - found.begin)
                        over += found.end - found.begin
                    if not is_sound or at != batch.end:
                        break
                    if tombstones and batch.base + batch.last < end:
                        break  # They get a delete horizon.
                    if kept == 0:
                        if has(lasts, count, batch.base + batch.last):
                            break  # It may be the last of a producer.
                        dropped = batch.begin
                        changed += 1
                    else:
                        memcpy(header, begin + batch.begin, HEADER_SIZE)
                        dropped = -1
                        if kept < batch.count:
                            changed += 1
                            store_big(header + LENGTH_AT, 4, <uint64_t>(over - written - LENGTH_OVERHEAD))
                            if not batch.attributes & LOG_APPEND_TIME:
                                store_big(header + MAX_TIMESTAMP_AT, 8, <uint64_t>latest)
                            store_big(header + COUNT_AT, 4, <uint64_t>kept)
                            store_big(
                                header + CRC_AT, 4,
                                logbus_crc32c(header + ATTRIBUTES_AT, over - written - ATTRIBUTES_AT, False),
                            )
                        written = over
                    records += batch.count
                    removed += batch.count - kept
                    keyless += without_key
                    position = batch.end
            return FilteredRun(
                position, PyBytes_FromStringAndSize(<char *>out, written), records, removed, changed, keyless, dropped
            )
        finally:
            free(out)
            PyBuffer_Release(&view)

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
        cdef int64_t count = section.record_count, delta = -1, n, latest = INT64_MIN
        cdef Py_ssize_t pos = 0, written = 0, kept = 0, keyless = 0
        cdef bint is_sound = 0 <= last <= INT64_MAX - base, tombstones = False
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
                    if base + delta < end:
                        if found.key_size < 0:
                            keyless += 1
                        elif (found.value_size < 0 and drop_tombstones) or (
                            get(&self._table, found.key, found.key_size) > base + delta
                        ):
                            continue
                    kept += 1
                    if found.timestamp > latest:
                        latest = found.timestamp
                    if found.value_size < 0 and found.key_size >= 0:
                        tombstones = True
                    memcpy(out + written, data + found.begin, found.end - found.begin)
                    written += found.end - found.begin
                is_sound = is_sound and pos == view.len
            if not is_sound:
                return record_filter.keep_records(self, section, end, drop_tombstones)
            made = None if kept == count else PyBytes_FromStringAndSize(<char *>out, written)
            return Kept(made, kept, keyless, tombstones, latest if kept else -1)
        finally:
            free(out)
            PyBuffer_Release(&view)
