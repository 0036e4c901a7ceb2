# Types for the compiled form of request_times.py.

cimport cython


cdef class PhaseTimes:
    cdef public tuple bounds
    cdef public list counts
    cdef public double sum

    @cython.locals(bucket=Py_ssize_t, bound=double)
    cpdef observe(self, double seconds, Py_ssize_t count)


cdef class ApiTimes:
    cdef public PhaseTimes queue, local, remote, total, send


cdef class RequestTimes:
    cdef public object seconds
    cdef public double mark
    cdef public ApiTimes last
    cdef public dict apis

    cpdef double begin(self, double held_since=*, double found=*) except -1
    @cython.locals(times=ApiTimes, mark=double, now=double)
    cpdef served(self, int api_key, Py_ssize_t count, double received, bint together=*)
    @cython.locals(times=ApiTimes, mark=double, now=double)
    cpdef double handed_over(self, int api_key, Py_ssize_t count, double received) except -1
    @cython.locals(times=ApiTimes, now=double)
    cpdef answered(self, int api_key, Py_ssize_t count, double received, double since)
    @cython.locals(times=ApiTimes)
    cdef ApiTimes _of(self, int api_key)
