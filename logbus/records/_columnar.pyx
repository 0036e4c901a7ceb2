# cython: language_level=3, boundscheck=False, wraparound=False
"""
The compiled implementation of ``columnar.py``: the same columns, straight from the bytes.

The input is not trusted: each length is compared with the rest of its record before anything is copied. Room is made
before writing: the fields of a section are disjoint parts of it, so all its keys together have no more bytes than the
section, and neither have the values, names and contents; a record has at least seven bytes, a header two.

The source in Python makes an object of each field, and is some seventy times slower: types for it would not help.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove

from logbus.errors import DecodeError
from logbus.records import header as header_fields
from logbus.records.checksum import crc32c
from logbus.records.columnar import COLUMN_LIMIT, NAME_GROWTH, ColumnData, HeaderData

REVISION = 4

cdef Py_ssize_t HEADER_SIZE = header_fields.HEADER_SIZE, MIN_LENGTH = header_fields.MIN_LENGTH
cdef Py_ssize_t LENGTH_OVERHEAD = header_fields.LENGTH_OVERHEAD, ATTRIBUTES_AT = header_fields.ATTRIBUTES_AT
cdef int MAGIC = header_fields.MAGIC, LOG_APPEND_TIME_BIT = header_fields.LOG_APPEND_TIME_BIT
cdef int NOT_PLAIN = header_fields.CODEC_MASK | header_fields.TRANSACTIONAL_BIT | header_fields.CONTROL_BIT
cdef Py_ssize_t MIN_RECORD_SIZE = 7, MIN_HEADER_SIZE = 2
cdef int64_t MAX_MS = INT64_MAX // 1000
cdef Py_ssize_t LIMIT = COLUMN_LIMIT, GROWTH = NAME_GROWTH
# Least bytes of memory worth reusing, and the number of pieces: one is filled, one is sent, one was just released.
cdef Py_ssize_t SPARE_LEAST = 1 << 18, SPARE_MOST = 32 << 20, SPARES = 4


cdef struct Cells:
    # A column of variable-length bytes being written.
    Py_ssize_t rows
    Py_ssize_t size
    Py_ssize_t nulls
    int32_t *ends  # The first is 0, that of row n is ends[n + 1].
    uint8_t *data
    uint8_t *valid


cdef struct Rows:
    # The columns being written for the rows of a section.
    int64_t *offsets
    int64_t *timestamps
    int32_t *header_ends
    bint with_headers
    uint8_t name_bits  # Any bit that a name has: the highest tells that not all are ASCII.
    Cells key
    Cells value
    Cells name
    Cells content


cdef struct Section:
    # The section being read.
    const uint8_t *at
    const uint8_t *end
    Py_ssize_t count
    int64_t base_offset
    int64_t last_offset_delta
    int64_t base_timestamp
    bint stamped
    int64_t append_time
    int64_t first
    int64_t last
    Py_ssize_t read
    const char *problem
    const uint8_t **values  # Where the value of each row is, if values are to be moved later; else NULL.


cdef inline bint read_number(const uint8_t **at, const uint8_t *end, int bits, uint64_t *number) noexcept nogil:
    # A varint of at most so many bits, still zigzag-encoded: the sign is its lowest bit.
    cdef const uint8_t *pos = at[0]
    cdef uint64_t byte, found = 0
    cdef int shift = 0
    while pos < end and shift < bits:
        byte = pos[0]
        pos += 1
        if shift + 7 > bits and byte >> (bits - shift):
            return False
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            number[0] = found
            at[0] = pos
            return True
        shift += 7
    return False


cdef inline int64_t read_int(const uint8_t *at, int size) noexcept nogil:
    # An unsigned big-endian number of so many bytes; of eight bytes a signed one.
    cdef uint64_t found = 0
    cdef int n
    for n in range(size):
        found = found << 8 | at[n]
    return <int64_t>found


cdef inline void add_cell(Cells *cells, const uint8_t *data, Py_ssize_t size) noexcept nogil:
    # A size of −1 is null.
    if size > 0:
        memcpy(cells.data + cells.size, data, size)
    add_size(cells, size)


cdef inline void add_size(Cells *cells, Py_ssize_t size) noexcept nogil:
    # All of a cell but its bytes.
    cdef Py_ssize_t row = cells.rows
    cdef int bit = row & 7
    # Clear bits that an abandoned section left in this byte.
    cells.valid[row >> 3] = (cells.valid[row >> 3] & ((1 << bit) - 1)) | ((size >= 0) << bit)
    if size > 0:
        cells.size += size
    elif size < 0:
        cells.nulls += 1
    cells.rows = row + 1
    cells.ends[row + 1] = <int32_t>cells.size


cdef inline bint read_size(
    const uint8_t **at, const uint8_t *end, Py_ssize_t *size, bint any_null
) noexcept nogil:
    # The size of the following bytes, which must be present; −1 is null, in a byte of its own unless any_null.
    cdef uint64_t number
    cdef const uint8_t *begun = at[0]
    if not read_number(at, end, 32, &number):
        return False
    if number & 1:
        size[0] = -1
        return number == 1 and (any_null or at[0] == begun + 1)
    size[0] = <Py_ssize_t>(number >> 1)
    return size[0] <= end - at[0]


cdef const char *read_headers(const uint8_t **at, const uint8_t *end, Rows *rows, bint kept) noexcept nogil:
    # NULL, or the problem.
    cdef Py_ssize_t size, count, n
    cdef const uint8_t *name
    cdef uint64_t number
    if not read_number(at, end, 32, &number) or number & 1:
        return "the number of headers"
    count = <Py_ssize_t>(number >> 1)
    if MIN_HEADER_SIZE * count > end - at[0]:
        return "the number of headers"
    kept = kept and rows.with_headers
    for _ in range(count):
        if not read_size(at, end, &size, False) or size < 0:
            return "the name of a header"
        name = at[0]
        at[0] += size
        if kept:
            for n in range(size):
                rows.name_bits |= name[n]
            add_cell(&rows.name, name, size)
        if not read_size(at, end, &size, True):
            return "the content of a header"
        if kept:
            add_cell(&rows.content, at[0], size)
        if size > 0:
            at[0] += size
    return NULL


cdef void move_cells(Cells *cells, Py_ssize_t row, const uint8_t **values) noexcept nogil:
    # Move the bytes of the rows from this one on to where they belong, which is before them.
    cdef Py_ssize_t n
    for n in range(cells.rows - row):
        memmove(cells.data + cells.ends[row + n], values[n], cells.ends[row + n + 1] - cells.ends[row + n])


cdef const char *read_rows(Section *section, Rows *rows) noexcept nogil:
    # NULL, or the problem with record number section.read.
    cdef const uint8_t *at = section.at
    cdef const uint8_t *end = section.end
    cdef const uint8_t *stop
    cdef const uint8_t *key
    cdef const uint8_t *value
    cdef const char *problem
    cdef uint64_t number
    cdef int64_t delta, timestamp, offset, last_delta = -1
    cdef int64_t base_timestamp = section.base_timestamp
    cdef Py_ssize_t key_size, value_size, row, begun = rows.key.rows
    cdef bint kept
    if section.last_offset_delta > 0 and section.base_offset > INT64_MAX - section.last_offset_delta:
        return "the offset, with the last of the batch"
    for section.read in range(section.count):
        if not read_number(&at, end, 32, &number) or number & 1 or <Py_ssize_t>(number >> 1) > end - at:
            return "the length"
        stop = at + (number >> 1)
        if at == stop:
            return "the length"
        at += 1  # Its attributes, of which none is defined.

        if not read_number(&at, stop, 64, &number):
            return "the timestamp"
        delta = <int64_t>(number >> 1) ^ -<int64_t>(number & 1)
        if base_timestamp > INT64_MAX - delta if delta > 0 else base_timestamp < INT64_MIN - delta:
            return "the timestamp"
        timestamp = section.append_time if section.stamped else base_timestamp + delta

        if not read_number(&at, stop, 32, &number) or number & 1:
            return "the offset"
        delta = <int64_t>(number >> 1)
        if delta <= last_delta or delta > section.last_offset_delta:
            return "the offset"
        last_delta = delta
        offset = section.base_offset + delta
        kept = section.first <= offset < section.last

        if not read_size(&at, stop, &key_size, False):
            return "the key"
        key = at
        if key_size > 0:
            at += key_size
        if not read_size(&at, stop, &value_size, False):
            return "the value"
        value = at
        if value_size > 0:
            at += value_size
        if kept:
            row = rows.key.rows
            rows.offsets[row] = offset
            rows.timestamps[row] = max(-MAX_MS, min(timestamp, MAX_MS)) * 1000
            add_cell(&rows.key, key, key_size)
            if section.values == NULL:
                add_cell(&rows.value, value, value_size)
            else:
                section.values[row - begun] = value
                add_size(&rows.value, value_size)

        if at == stop:
            return "the number of headers"
        if at[0] == 0:
            at += 1
        else:
            problem = read_headers(&at, stop, rows, kept)
            if problem != NULL:
                return problem
        if kept and rows.with_headers:
            rows.header_ends[rows.key.rows] = <int32_t>rows.name.rows
        if at != stop:
            return "the length, which is more than its fields have"
    section.read = section.count
    if at != end:
        return "bytes that follow the last"
    if last_delta > section.last_offset_delta:
        return "the last offset of the batch"
    return NULL


cdef int reserve(bytearray buffer, Py_ssize_t size) except -1:
    # At least twice as much as before: growing for each batch would copy too often.
    cdef Py_ssize_t held = PyByteArray_GET_SIZE(buffer)
    if held < size:
        PyByteArray_Resize(buffer, max(size, 2 * held))
    return 0


cdef bytearray used_before(list spares):
    # A piece without views, which can be resized.
    cdef bytearray piece
    for piece in spares:
        try:
            PyByteArray_Resize(piece, PyByteArray_GET_SIZE(piece) + 1)
        except BufferError:
            continue
        spares.remove(piece)
        return piece
    return bytearray()


cdef int spare(list spares, bytearray piece) except -1:
    # Keep a piece that is handed over, to reuse it once its views are released.
    if SPARE_LEAST <= PyByteArray_GET_SIZE(piece) <= SPARE_MOST:
        if len(spares) >= SPARES:
            del spares[0]
        spares.append(piece)
    return 0


cdef class Binary:
    """A column of variable-length bytes: in memory of its own, or of the caller, at ``place`` in ``lender``."""

    cdef bytearray ends, data, valid, lender
    cdef object lent  # A view, which keeps the lender as it is; None: own memory.
    cdef uint8_t *place
    cdef Py_ssize_t rows, size, nulls

    def __cinit__(self, list spares):
        self.ends, self.data, self.valid = bytearray(4), used_before(spares), bytearray()

    cdef int begin(self, Cells *cells, Py_ssize_t rows, Py_ssize_t size) except -1:
        # Make room for so many more bytes; returns the position.
        reserve(self.ends, 4 * (self.rows + rows + 1))
        reserve(self.valid, (self.rows + rows + 7) // 8)
        if self.lent is None:
            reserve(self.data, self.size + size)
        cells.rows, cells.size, cells.nulls = self.rows, self.size, self.nulls
        cells.ends = <int32_t *>PyByteArray_AS_STRING(self.ends)
        cells.data = self.place if self.lent is not None else <uint8_t *>PyByteArray_AS_STRING(self.data)
        cells.valid = <uint8_t *>PyByteArray_AS_STRING(self.valid)
        return 0

    cdef void keep(self, const Cells *cells) noexcept:
        # Count the bytes written since.
        self.rows, self.size, self.nulls = cells.rows, cells.size, cells.nulls

    cdef bint borrow(self, object data, const Py_buffer *view, const uint8_t *at):
        # Have the bytes of the next section, at this place in data, stay there, behind those that the column has there;
        # False: they must be copied.
        if type(data) is not memoryview or view.readonly or type(data.obj) is not bytearray:
            return False
        if self.size == 0:
            self.lent, self.lender, self.place = data, data.obj, <uint8_t *>at
            return True
        return self.lent is not None and data.obj is self.lender and at >= self.place + self.size

    cdef int settle(self) except -1:
        # Copy what is borrowed to memory of its own.
        if self.lent is not None:
            reserve(self.data, self.size)
            memcpy(PyByteArray_AS_STRING(self.data), self.place, self.size)
            self.lent = self.lender = None
        return 0

    cdef object borrowed(self):
        # A view of the bytes of a column that are borrowed.
        cdef Py_ssize_t begun = self.place - <uint8_t *>PyByteArray_AS_STRING(self.lender)
        return memoryview(self.lender)[begun : begun + self.size]

    cdef bytearray taken_ends(self):
        PyByteArray_Resize(self.ends, 4 * (self.rows + 1))
        return self.ends

    cdef bytearray taken_data(self):
        PyByteArray_Resize(self.data, self.size)
        return self.data

    cdef object taken_validity(self):
        if self.nulls == 0:
            return None
        PyByteArray_Resize(self.valid, (self.rows + 7) // 8)
        if self.rows & 7:
            # Clear bits that an abandoned section left behind the last row.
            self.valid[self.rows >> 3] &= (1 << (self.rows & 7)) - 1
        return self.valid


cdef class Columns:
    """The compiled implementation of :class:`logbus.records.columnar.Columns`."""

    cdef bint with_headers, is_busy
    cdef bytearray offsets, timestamps, header_ends
    cdef Binary key, value, name, content
    cdef list spares

    def __init__(self, bint headers=False, spares=None):
        self.with_headers = headers
        self.spares = [] if spares is None else spares
        self.clear()

    cdef int clear(self) except -1:
        self.offsets, self.timestamps, self.header_ends = bytearray(), bytearray(), bytearray(4)
        # Most bytes are those of values: reuse of the rest would not pay.
        self.value = Binary(self.spares)
        self.key, self.name, self.content = Binary([]), Binary([]), Binary([])
        return 0

    cdef Py_ssize_t held(self) noexcept:
        cdef Py_ssize_t size = 24 * self.key.rows + self.key.size + self.value.size
        if self.with_headers:
            size += 4 * self.key.rows + 8 * self.name.rows + self.name.size + self.content.size
        return size

    @property
    def rows(self):
        """Rows held."""
        return self.key.rows

    @property
    def nbytes(self):
        """Bytes held, without validity bits."""
        return self.held()

    cpdef bint has_room(self, Py_ssize_t size):
        """Whether no column can outgrow its limit by a records section of ``size`` bytes."""
        return size <= (LIMIT - self.held()) // (GROWTH if self.with_headers else 1)

    def extend(
        self,
        data,
        Py_ssize_t count,
        int64_t base_offset,
        int64_t last_offset_delta,
        int64_t base_timestamp,
        append_time,
        int64_t first,
        int64_t end,
        bint in_place=False,
    ):
        """Add the records of a batch whose offsets are from ``first`` on and below ``end``."""
        cdef Py_buffer view
        cdef Section section
        cdef Py_ssize_t held = self.key.rows
        if self.is_busy:
            raise RuntimeError("columns are used while they are being extended")
        section.count, section.first, section.last = count, first, end
        section.base_offset, section.last_offset_delta = base_offset, last_offset_delta
        section.base_timestamp, section.stamped = base_timestamp, append_time is not None
        section.append_time = append_time if section.stamped else 0
        PyObject_GetBuffer(self.view_of(data), &view, PyBUF_SIMPLE)
        section.at = <const uint8_t *>view.buf
        section.end = section.at + view.len
        self.is_busy = True
        try:
            self.add(&section, in_place and self.value.borrow(data, &view, section.at))
        finally:
            self.is_busy = False
            PyBuffer_Release(&view)
        return self.key.rows - held

    def extend_plain(
        self,
        buf,
        Py_ssize_t pos,
        int64_t first,
        int64_t end,
        Py_ssize_t max_rows,
        Py_ssize_t max_bytes,
        Py_ssize_t limit,
        bint in_place=False,
    ):
        """Add the batches from ``pos`` on that need nothing but their records; see the source in Python."""
        cdef Py_buffer view
        cdef Section section
        cdef const uint8_t *head
        cdef int64_t next_offset = first
        cdef Py_ssize_t length, size
        cdef int attributes
        if self.is_busy:
            raise RuntimeError("columns are used while they are being extended")
        cdef object whole = self.view_of(buf)
        PyObject_GetBuffer(whole, &view, PyBUF_SIMPLE)
        self.is_busy = True
        try:
            while view.len - pos >= HEADER_SIZE and next_offset < end:
                if self.key.rows >= max_rows or self.held() >= max_bytes:
                    break
                head = <const uint8_t *>view.buf + pos
                length, attributes = <int32_t>read_int(head + 8, 4), <int>read_int(head + ATTRIBUTES_AT, 2)
                if length < MIN_LENGTH or length > view.len - pos - LENGTH_OVERHEAD or head[16] != MAGIC:
                    break
                if attributes & NOT_PLAIN:
                    break
                size = length + LENGTH_OVERHEAD
                section.base_offset, section.last_offset_delta = read_int(head, 8), <int32_t>read_int(head + 23, 4)
                if section.base_offset < 0 or section.base_offset >= end or section.last_offset_delta < 0:
                    break
                if section.base_offset >= INT64_MAX - section.last_offset_delta:
                    break
                if size - HEADER_SIZE > limit or not self.has_room(size - HEADER_SIZE):
                    break
                if <uint32_t>read_int(head + 17, 4) != <uint32_t>crc32c(whole[pos + ATTRIBUTES_AT : pos + size]):
                    break
                section.count = <int32_t>read_int(head + 57, 4)
                if section.base_offset + section.last_offset_delta >= first and (length > MIN_LENGTH or section.count):
                    section.first, section.last = first, end
                    section.base_timestamp, section.append_time = read_int(head + 27, 8), read_int(head + 35, 8)
                    section.stamped = attributes & LOG_APPEND_TIME_BIT != 0
                    section.at, section.end = head + HEADER_SIZE, head + size
                    try:
                        self.add(&section, in_place and self.value.borrow(buf, &view, section.at))
                    except DecodeError:
                        break
                pos += size
                next_offset = max(next_offset, section.base_offset + section.last_offset_delta + 1)
        finally:
            self.is_busy = False
            PyBuffer_Release(&view)
        return pos, next_offset

    cdef object view_of(self, data):
        # From Python 3.12 on an object may make its buffer by code in Python, which may use these columns.
        if type(data) is memoryview:
            return data
        self.is_busy = True
        try:
            return memoryview(data)
        finally:
            self.is_busy = False

    cdef int add(self, Section *section, bint in_place) except -1:
        # Add the bytes of a section.
        cdef Rows rows
        cdef Py_ssize_t size = section.end - section.at
        section.values = NULL
        try:
            if not in_place:
                self.value.settle()
            if not self.has_room(size):
                raise OverflowError(f"columns of {self.held()} bytes have no room for records of {size}: take them")
            if section.count < 0 or section.count > size // MIN_RECORD_SIZE:
                raise DecodeError(f"{section.count} records cannot lie in {size} bytes")
            if in_place:
                # They are moved once all records are known to be well-formed: after an error the buffer is as before.
                section.values = <const uint8_t **>malloc(max(1, section.count) * sizeof(uint8_t *))
                if section.values == NULL:
                    raise MemoryError
            self.begin(&rows, section.count, size)
            # The interpreter lock is held: a megabyte takes less than a millisecond, and releasing it did not pay.
            section.problem = read_rows(section, &rows)
            if section.problem != NULL:
                what = section.problem.decode()
                raise DecodeError(f"record {section.read} of {section.count} in {size} bytes is malformed: {what}")
            if rows.name_bits & 0x80:
                self.mend_names(&rows)
            if in_place:
                move_cells(&rows.value, self.value.rows, section.values)
        finally:
            free(<void *>section.values)
        self.key.keep(&rows.key)
        self.value.keep(&rows.value)
        self.name.keep(&rows.name)
        self.content.keep(&rows.content)
        return 0

    cdef int begin(self, Rows *rows, Py_ssize_t count, Py_ssize_t size) except -1:
        # Make room for any section of so many records and bytes; sets the positions.
        cdef Py_ssize_t room = self.key.rows + count
        cdef Py_ssize_t headers = size // MIN_HEADER_SIZE if self.with_headers else 0
        cdef Py_ssize_t of_headers = size if self.with_headers else 0
        reserve(self.offsets, 8 * room)
        reserve(self.timestamps, 8 * room)
        reserve(self.header_ends, 4 * (room + 1) if self.with_headers else 0)
        self.key.begin(&rows.key, count, size)
        self.value.begin(&rows.value, count, size)
        self.name.begin(&rows.name, headers, of_headers)
        self.content.begin(&rows.content, headers, of_headers)
        rows.offsets = <int64_t *>PyByteArray_AS_STRING(self.offsets)
        rows.timestamps = <int64_t *>PyByteArray_AS_STRING(self.timestamps)
        rows.header_ends = <int32_t *>PyByteArray_AS_STRING(self.header_ends)
        rows.with_headers, rows.name_bits = self.with_headers, 0
        return 0

    cdef int mend_names(self, Rows *rows) except -1:
        # Not all names are ASCII: invalid UTF-8 is replaced, which may lengthen a name.
        cdef Py_ssize_t row, size
        cdef Cells *name = &rows.name
        cdef list names = [
            name.data[name.ends[row] : name.ends[row + 1]].decode("utf-8", "replace").encode()
            for row in range(self.name.rows, name.rows)
        ]
        cdef bytes joined = b"".join(names), mended
        reserve(self.name.data, self.name.size + len(joined))
        name.data = <uint8_t *>PyByteArray_AS_STRING(self.name.data)
        memcpy(name.data + self.name.size, <const char *>joined, len(joined))
        size = self.name.size
        row = self.name.rows
        for mended in names:
            size += len(mended)
            row += 1
            name.ends[row] = <int32_t>size
        name.size = size
        return 0

    def take(self):
        """Return all rows, and become empty."""
        if self.is_busy:
            raise RuntimeError("columns are used while they are being extended")
        cdef Py_ssize_t rows = self.key.rows
        headers = None
        if self.with_headers:
            PyByteArray_Resize(self.header_ends, 4 * (rows + 1))
            headers = HeaderData(
                self.name.rows,
                self.header_ends,
                self.name.taken_ends(),
                self.name.taken_data(),
                self.content.taken_validity(),
                self.content.taken_ends(),
                self.content.taken_data(),
            )
        PyByteArray_Resize(self.offsets, 8 * rows)
        PyByteArray_Resize(self.timestamps, 8 * rows)
        cdef bytearray values = self.value.data
        cdef object data
        if self.value.lent is not None:
            data = self.value.borrowed()
        else:
            data = memoryview(self.value.taken_data())
        taken = ColumnData(
            rows,
            self.offsets,
            self.timestamps,
            self.key.taken_validity(),
            self.key.taken_ends(),
            self.key.taken_data(),
            self.value.taken_validity(),
            self.value.taken_ends(),
            data,
            headers,
        )
        spare(self.spares, values)
        self.clear()
        return taken
