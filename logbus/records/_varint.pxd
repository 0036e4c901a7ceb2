# cython: language_level=3
# Varints, as in records.

from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef inline uint64_t zigzag(int64_t n) noexcept nogil:
    # Zigzag: the sign becomes the lowest bit.
    return (<uint64_t>n << 1) ^ <uint64_t>(n >> 63)


cdef inline Py_ssize_t width(uint64_t n) noexcept nogil:
    # Bytes of a number.
    cdef Py_ssize_t found = 1
    while n > 0x7F:
        n >>= 7
        found += 1
    return found


cdef inline uint8_t *write_number(uint8_t *at, uint64_t n) noexcept nogil:
    # Returns the position after it.
    while n > 0x7F:
        at[0] = <uint8_t>(n & 0x7F | 0x80)
        at += 1
        n >>= 7
    at[0] = <uint8_t>n
    return at + 1
