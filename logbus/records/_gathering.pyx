# cython: language_level=3, boundscheck=False, wraparound=False
"""
The compiled implementation of ``gathering.py``: the same bytes, written straight into growing memory.

The size of a record is computed, and room made for it, before it is written. Compiled from the source in Python instead,
it takes six times as long: there each record is an object, and each of its numbers.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from logbus.records._varint cimport width, write_number, zigzag
from logbus.records.gathering import NO_TIMESTAMP
from logbus.records.header import HEADER_SIZE

REVISION = 3

cdef Py_ssize_t _HEADER_SIZE = HEADER_SIZE
cdef int64_t _NO_TIMESTAMP = NO_TIMESTAMP
cdef Py_ssize_t _FIRST_ROOM = 256


cdef inline Py_ssize_t width_of(bytes data):
    # Bytes of a length and its content.
    return 1 if data is None else PyBytes_GET_SIZE(data) + width(zigzag(PyBytes_GET_SIZE(data)))


cdef inline uint8_t *write_bytes(uint8_t *at, bytes data):
    cdef Py_ssize_t size
    if data is None:
        return write_number(at, zigzag(-1))
    size = PyBytes_GET_SIZE(data)
    at = write_number(at, zigzag(size))
    memcpy(at, PyBytes_AS_STRING(data), size)
    return at + size


cdef list encoded(headers):
    # Names and contents as bytes, alternating.
    cdef list found = []
    for name, content in headers:
        found.append(name.encode("utf-8", "surrogateescape"))
        found.append(content if content is None or type(content) is bytes else bytes(memoryview(content)))
    return found


cdef class RecordBuffer:
    """As :class:`logbus.records.gathering.RecordBuffer`."""

    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef uint8_t *_data
    cdef Py_ssize_t _room

    def __cinit__(self):
        self.count = 0
        self.size = _HEADER_SIZE
        self.base_timestamp = self.max_timestamp = _NO_TIMESTAMP
        self._data = NULL
        self._room = 0

    def __dealloc__(self):
        PyMem_Free(self._data)

    def append(self, timestamp, bytes key, bytes value, headers=()):
        return self._append(INT64_MAX, timestamp, key, value, headers)

    def append_within(self, Py_ssize_t limit, timestamp, bytes key, bytes value, headers=()):
        return self._append(limit, timestamp, key, value, headers)

    cdef Py_ssize_t _append(self, Py_ssize_t limit, timestamp, bytes key, bytes value, headers) except -2:
        cdef int64_t now, base
        cdef uint64_t delta
        cdef Py_ssize_t used, size, whole
        cdef list more = encoded(headers) if headers else None  # First: it may run code of the caller.
        cdef bytes each
        cdef uint8_t *at
        try:
            now = timestamp
        except OverflowError:
            raise ValueError(f"{timestamp} is not a signed 64-bit number") from None
        base = self.base_timestamp if self.count else now
        if (base < 0 and now > INT64_MAX + base) or (base > 0 and now < INT64_MIN + base):
            raise ValueError(f"{timestamp - self.base_timestamp} is not a signed 64-bit number")
        delta = zigzag(now - base)
        size = 1 + width(delta) + width(zigzag(self.count)) + width_of(key) + width_of(value)
        if more is None:
            size += 1
        else:
            size += width(zigzag(len(more) // 2))
            for each in more:
                size += width_of(each)
        whole = size + width(zigzag(size))
        if self.count and whole > limit - self.size:
            return -1
        used = self.size - _HEADER_SIZE
        self._make_room(used + whole)
        at = write_number(self._data + used, zigzag(size))
        at[0] = 0  # Its attributes, of which none is defined.
        at = write_number(at + 1, delta)
        at = write_number(at, zigzag(self.count))
        at = write_bytes(at, key)
        at = write_bytes(at, value)
        if more is None:
            at[0] = 0
        else:
            at = write_number(at, zigzag(len(more) // 2))
            for each in more:
                at = write_bytes(at, each)
        self.size += whole
        self.base_timestamp = base
        if now > self.max_timestamp:
            self.max_timestamp = now
        self.count += 1
        return self.count - 1

    cdef int _make_room(self, Py_ssize_t needed) except -1:
        cdef Py_ssize_t room = self._room
        cdef uint8_t *data
        if needed > room:
            room = max(2 * room, needed, _FIRST_ROOM)
            data = <uint8_t *>PyMem_Realloc(self._data, room)
            if data is NULL:
                raise MemoryError
            self._data, self._room = data, room
        return 0

    def contents(self):
        return PyBytes_FromStringAndSize(<char *>self._data, self.size - _HEADER_SIZE)
