# cython: language_level=3, boundscheck=False, wraparound=False
"""
The compiled implementation of ``packing.py``: the same bytes, straight from the columns.

The size of a record is computed, and compared with the room left, before it is written. The source in Python makes
objects of each row, and is some sixty times slower: types for it would not help.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from logbus.records._varint cimport width, write_number, zigzag
from logbus.records.packing import MAX_RECORD, NO_TIMESTAMP

REVISION = 3

cdef int64_t LARGEST = MAX_RECORD
cdef int64_t NONE = NO_TIMESTAMP
cdef Py_ssize_t OVERHEAD = 48
"""Upper bound of the bytes of a record's numbers."""


cdef struct Cells:
    # A column of variable-length bytes; valid is NULL if nothing is null.
    const uint8_t *valid
    const int32_t *ends
    const uint8_t *data
    Py_ssize_t size


cdef struct Rows:
    # order is NULL if rows are taken as they lie; times, if all have the same; header_ends, without headers.
    Py_ssize_t count
    const int64_t *order
    const int64_t *times
    const int32_t *header_ends
    Py_ssize_t headers
    Cells key
    Cells value
    Cells name
    Cells content


cdef struct Packed:
    # The records being written.
    uint8_t *data
    int64_t size
    int64_t room
    int64_t now
    int64_t base
    int64_t highest
    Py_ssize_t first
    Py_ssize_t next
    Py_ssize_t row
    const char *problem


cdef inline bint is_sound(const Cells *cells, Py_ssize_t row) noexcept nogil:
    return 0 <= cells.ends[row] <= cells.ends[row + 1] <= cells.size


cdef inline bint is_null(const Cells *cells, Py_ssize_t row) noexcept nogil:
    return cells.valid != NULL and not cells.valid[row >> 3] >> (row & 7) & 1


cdef inline int64_t width_of(const Cells *cells, Py_ssize_t row) noexcept nogil:
    # Bytes of a cell, with its length.
    cdef int64_t size = cells.ends[row + 1] - cells.ends[row]
    return 1 if is_null(cells, row) else size + width(zigzag(size))


cdef inline uint8_t *write_cell(uint8_t *at, const Cells *cells, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t size = cells.ends[row + 1] - cells.ends[row]
    if is_null(cells, row):
        return write_number(at, zigzag(-1))
    at = write_number(at, zigzag(size))
    memcpy(at, cells.data + cells.ends[row], size)
    return at + size


cdef int64_t width_of_headers(const Rows *rows, Py_ssize_t row) noexcept nogil:
    # Bytes of a row's headers, with their number; −1: they are invalid.
    cdef Py_ssize_t n
    cdef int64_t size
    if not 0 <= rows.header_ends[row] <= rows.header_ends[row + 1] <= rows.headers:
        return -1
    size = width(zigzag(rows.header_ends[row + 1] - rows.header_ends[row]))
    for n in range(rows.header_ends[row], rows.header_ends[row + 1]):
        if not is_sound(&rows.name, n) or not is_sound(&rows.content, n):
            return -1
        size += width_of(&rows.name, n) + width_of(&rows.content, n)
    return size


cdef uint8_t *write_headers(uint8_t *at, const Rows *rows, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t n
    at = write_number(at, zigzag(rows.header_ends[row + 1] - rows.header_ends[row]))
    for n in range(rows.header_ends[row], rows.header_ends[row + 1]):
        at = write_cell(at, &rows.name, n)
        at = write_cell(at, &rows.content, n)
    return at


cdef inline bint find_row(const Rows *rows, Py_ssize_t at, Py_ssize_t *row) noexcept nogil:
    # The row at a position of the order.
    row[0] = at if rows.order == NULL else rows.order[at]
    return 0 <= row[0] < rows.count


cdef int64_t bound(const Rows *rows, Py_ssize_t start, Py_ssize_t stop, int64_t room) noexcept nogil:
    # Upper bound of the bytes of the records that fit: up to the first invalid row, which is found again later.
    cdef Py_ssize_t at, row
    cdef int64_t of_headers = 0, size = 0
    for at in range(start, stop):
        if size >= room or not find_row(rows, at, &row) or not is_sound(&rows.key, row):
            break
        if not is_sound(&rows.value, row):
            break
        if rows.header_ends != NULL:
            of_headers = width_of_headers(rows, row)
            if of_headers < 0:
                break
        size += OVERHEAD + of_headers
        size += rows.key.ends[row + 1] - rows.key.ends[row]
        size += rows.value.ends[row + 1] - rows.value.ends[row]
    return min(size, room)


cdef const char *pack(Packed *out, const Rows *rows, Py_ssize_t stop) noexcept nogil:
    # NULL, or the problem with the row out.row; without one out.next is the first that does not fit.
    cdef uint8_t *at
    cdef uint64_t time_delta
    cdef int64_t now, base, of_headers, body, whole, delta
    for out.next in range(out.first, stop):
        if not find_row(rows, out.next, &out.row):
            return "there is no such row"
        now = out.now
        if rows.times != NULL:
            now = rows.times[out.row] // 1000  # Rounded down: this is Python's division.
        delta = out.next - out.first
        base = out.base if delta else now
        if (base < 0 and now > INT64_MAX + base) or (base > 0 and now < INT64_MIN + base):
            return "the timestamp is too far from the batch's"
        time_delta = zigzag(now - base)
        if not is_sound(&rows.key, out.row):
            return "the key's offsets are not inside its data"
        if not is_sound(&rows.value, out.row):
            return "the value's offsets are not inside its data"
        of_headers = 1 if rows.header_ends == NULL else width_of_headers(rows, out.row)
        if of_headers < 0:
            return "the headers' offsets are not inside their data"
        body = 1 + width(time_delta) + width(zigzag(delta)) + of_headers
        body += width_of(&rows.key, out.row) + width_of(&rows.value, out.row)
        whole = body + width(zigzag(body))
        if whole > LARGEST:
            return "it is too large for a record"
        if whole > out.room - out.size:
            return NULL
        at = write_number(out.data + out.size, zigzag(body))
        at[0] = 0  # Its attributes, of which none is defined.
        at = write_number(at + 1, time_delta)
        at = write_number(at, zigzag(delta))
        at = write_cell(at, &rows.key, out.row)
        at = write_cell(at, &rows.value, out.row)
        if rows.header_ends == NULL:
            at[0] = 0
        else:
            write_headers(at, rows, out.row)
        out.size += whole
        out.base = base
        out.highest = max(out.highest, now)
    out.next = stop
    return NULL


cdef class Held:
    """Keeps a buffer in place as long as this object lives."""

    cdef Py_buffer view
    cdef bint is_held

    def __cinit__(self, data, Py_ssize_t least, str name):
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
        self.is_held = True
        if self.view.len < least:
            raise ValueError(f"the buffer of {name} has {self.view.len} bytes; the rows take {least}")

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.view)


cdef const void *hold(list held, data, Py_ssize_t least, str name) except? NULL:
    cdef Held buffer = Held(data, least, name)
    held.append(buffer)
    return buffer.view.buf


cdef int hold_cells(
    list held, Cells *cells, validity, offsets, data, Py_ssize_t count, str name
) except -1:
    cdef Held content = Held(data, 0, name)
    held.append(content)
    cells.data, cells.size = <const uint8_t *>content.view.buf, content.view.len
    cells.ends = <const int32_t *>hold(held, offsets, 4 * (count + 1), f"{name} offsets")
    cells.valid = NULL
    if validity is not None and count:
        cells.valid = <const uint8_t *>hold(held, validity, (count + 7) // 8, f"{name} validity")
    return 0


cdef int check_rows(Py_ssize_t rows, Py_ssize_t start, Py_ssize_t stop) except -1:
    if not 0 <= start <= stop <= min(rows, LARGEST):
        raise ValueError(f"rows {start} to {stop} are not among {rows}")
    return 0


cdef int64_t milliseconds(number) except? -1:
    if not INT64_MIN <= number <= INT64_MAX:
        raise ValueError(f"{number} is not a signed 64-bit number")
    return number


def encode_columns(data, Py_ssize_t start, Py_ssize_t stop, room, timestamp=None, order=None, Py_ssize_t front=0):
    """As :func:`logbus.records.packing.encode_columns`."""
    cdef list held = []
    cdef Rows rows
    cdef Packed out
    cdef bytearray section
    cdef Held positions
    cdef Py_ssize_t last = stop
    cdef const char *problem
    rows.order, rows.count = NULL, data.rows
    if order is None:
        check_rows(rows.count, start, stop)
    else:
        positions = Held(order, 0, "the order")
        held.append(positions)
        rows.order = <const int64_t *>positions.view.buf
        check_rows(positions.view.len // 8, start, stop)
        last = rows.count
        check_rows(rows.count, 0, last)
    hold_cells(held, &rows.key, data.key_validity, data.key_offsets, data.key_data, last, "key")
    hold_cells(held, &rows.value, data.value_validity, data.value_offsets, data.value_data, last, "value")
    headers = data.headers
    rows.header_ends, rows.headers = NULL, 0
    if headers is not None:
        if not 0 <= headers.count <= LARGEST:
            raise ValueError(f"columns cannot have {headers.count} headers")
        rows.headers = headers.count
        rows.header_ends = <const int32_t *>hold(held, headers.offsets, 4 * (last + 1), "header offsets")
        hold_cells(held, &rows.name, None, headers.name_offsets, headers.name_data, rows.headers, "header name")
        hold_cells(
            held,
            &rows.content,
            headers.content_validity,
            headers.content_offsets,
            headers.content_data,
            rows.headers,
            "header content",
        )
    rows.times = NULL
    if timestamp is None and last:
        rows.times = <const int64_t *>hold(held, data.timestamps_us, 8 * last, "timestamps")
    out.now = 0 if timestamp is None else milliseconds(timestamp)
    out.first, out.size, out.base, out.highest = start, 0, NONE, NONE
    out.room = max(0, bound(&rows, start, stop, min(room, INT64_MAX)))
    section = PyByteArray_FromStringAndSize(NULL, front + out.room)
    memset(PyByteArray_AS_STRING(section), 0, front)
    out.data = <uint8_t *>PyByteArray_AS_STRING(section) + front
    # With the interpreter lock held: no buffer may change between the check and the copy.
    problem = pack(&out, &rows, stop)
    if problem != NULL:
        raise ValueError(f"row {out.row} makes no record: {problem.decode()}")
    PyByteArray_Resize(section, front + out.size)
    return section, out.next - start, out.base, out.highest


cdef inline uint32_t murmur2(const uint8_t *data, uint32_t size) noexcept nogil:
    cdef uint32_t m = 0x5BD1E995, h = <uint32_t>0x9747B28C ^ size, k
    while size >= 4:
        k = data[0] | <uint32_t>data[1] << 8 | <uint32_t>data[2] << 16 | <uint32_t>data[3] << 24
        k *= m
        k ^= k >> 24
        h = (h * m) ^ (k * m)
        data += 4
        size -= 4
    if size:
        k = data[0]
        if size > 1:
            k |= <uint32_t>data[1] << 8
        if size > 2:
            k |= <uint32_t>data[2] << 16
        h = (h ^ k) * m
    h = (h ^ h >> 13) * m
    return h ^ h >> 15


def partition_for_key(bytes key not None, int32_t count):
    """As :func:`logbus.records.murmur.partition_for_key`."""
    if count <= 0:
        raise ValueError(f"{count} partitions: a key goes to one of 1 or more")
    return (murmur2(<const uint8_t *><const char *>key, len(key)) & 0x7FFFFFFF) % <uint32_t>count


def partitions_of_keys(data, Py_ssize_t start, Py_ssize_t stop, int32_t count):
    """As :func:`logbus.records.packing.partitions_of_keys`."""
    cdef list held = []
    cdef Cells keys
    cdef Py_ssize_t row
    cdef bytearray found
    cdef int32_t *partitions
    if count <= 0:
        raise ValueError(f"a topic cannot have {count} partitions")
    check_rows(data.rows, start, stop)
    hold_cells(held, &keys, data.key_validity, data.key_offsets, data.key_data, stop, "key")
    found = bytearray(4 * (stop - start))
    partitions = <int32_t *>PyByteArray_AS_STRING(found)
    for row in range(start, stop):
        if not is_sound(&keys, row):
            raise ValueError(f"key {row} has offsets that are not inside its data")
        if is_null(&keys, row):
            partitions[row - start] = -1
        else:
            partitions[row - start] = <int32_t>(
                (murmur2(keys.data + keys.ends[row], keys.ends[row + 1] - keys.ends[row]) & 0x7FFFFFFF) % count
            )
    return found
