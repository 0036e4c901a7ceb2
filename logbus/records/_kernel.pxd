# Types for the compiled implementation of kernel.py.

cimport cython

@cython.locals(size=Py_ssize_t)
cpdef bytes encode_record(object timestamp_delta, Py_ssize_t offset_delta, bytes key, bytes value, object headers=*)

@cython.locals(
    records=list, pos=Py_ssize_t, end=Py_ssize_t, n=Py_ssize_t, length=Py_ssize_t, record_end=Py_ssize_t,
    byte=Py_ssize_t, delta="long long", last_delta="long long", timestamp="long long", at_edge=bint, is_far=bint,
)
cpdef list decode_records(
    bytes data, Py_ssize_t count, long long base_offset, long long last_offset_delta, long long base_timestamp,
    object append_time=*, object kind=*, tuple prefix=*
)
