# Types for the compiled form of batch_validation.py.

cimport cython


@cython.locals(
    size=Py_ssize_t, fields=tuple, length="long long", crc="long long", attributes="long long", delta="long long",
    base_timestamp="long long", max_timestamp="long long", producer_id="long long", epoch="long long",
    sequence="long long", count="long long", codec="long long",
)
cpdef tuple validate_produced(data, bint zstd_allowed=*, bint sequenced=*)
