# Types for the compiled form of frame_buffer.py.

cimport cython


cdef class FrameBuffer:
    cdef public Py_ssize_t limit
    cdef Py_ssize_t _floor, _usable, _start, _end
    cdef object _buffer, _view, _pool

    @cython.locals(start=Py_ssize_t, end=Py_ssize_t, capacity=Py_ssize_t, wanted=Py_ssize_t, held=Py_ssize_t, stop=Py_ssize_t)
    cpdef room(self)
    cpdef filled(self, Py_ssize_t count)
    @cython.locals(start=Py_ssize_t, held=Py_ssize_t, length=Py_ssize_t, stop=Py_ssize_t)
    cpdef next_frame(self)
    cpdef consume(self, Py_ssize_t count)
    @cython.locals(length=Py_ssize_t)
    cdef Py_ssize_t _wanted(self) except -1
    cdef _enlarge(self, Py_ssize_t target)
    @cython.locals(held=Py_ssize_t)
    cdef _move_to(self, Py_ssize_t size, Py_ssize_t usable)
