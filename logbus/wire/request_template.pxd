# Types for the compiled form of request_template.py.

cimport cython

from logbus.wire.frame_buffer cimport FrameBuffer


cdef class RequestTemplate:
    cdef readonly bytes prefix, tail, head
    cdef readonly Py_ssize_t size, before
    cdef readonly long long api
    cdef readonly object api_version, client_id, topic, topic_id, index, acks, partition, timeout_ms, transactional_id
    cdef bytes _tag, _before, _after
    cdef object _length, _pack

    @cython.locals(rest=Py_ssize_t, width=Py_ssize_t, batch=Py_ssize_t)
    cpdef measure(self, Py_ssize_t size)


cdef class TemplateCache:
    cdef dict _known

    @cython.locals(
        start=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t, api="long long", stop=Py_ssize_t, prefix=Py_ssize_t,
        template=RequestTemplate, found=RequestTemplate, begun=Py_ssize_t, tail=bytes, short=Py_ssize_t, ids=list,
        batches=list, at=Py_ssize_t, next_api="long long",
    )
    cpdef take(self, FrameBuffer frames, RequestTemplate last, Py_ssize_t most, Py_ssize_t most_bytes)
    cdef RequestTemplate _find(self, buffer, Py_ssize_t at, Py_ssize_t stop, long long api, Py_ssize_t name)
