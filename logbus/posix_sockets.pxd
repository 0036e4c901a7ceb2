# Sockets, files and epoll: what the threads that serve connections have need of.

from libc.stdint cimport uint32_t
from posix.types cimport off_t

cdef extern from "<sys/epoll.h>" nogil:
    ctypedef union epoll_data_t:
        void *ptr
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int)
    int epoll_ctl(int, int, int, epoll_event *)
    int epoll_wait(int, epoll_event *, int, int)
    int EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL
    uint32_t EPOLLIN, EPOLLOUT, EPOLLONESHOT

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len
    ssize_t preadv2(int, const iovec *, int, off_t, int)
    int RWF_NOWAIT

cdef extern from "<sys/sendfile.h>" nogil:
    ssize_t sendfile(int, int, off_t *, size_t)

cdef extern from "<sys/socket.h>" nogil:
    struct msghdr:
        iovec *msg_iov
        size_t msg_iovlen
    ssize_t send(int, const void *, size_t, int)
    ssize_t sendmsg(int, const msghdr *, int)
    ssize_t recv(int, void *, size_t, int)
    int MSG_DONTWAIT, MSG_NOSIGNAL

cdef extern from "<fcntl.h>" nogil:
    int fcntl(int, int, ...)
    int F_DUPFD_CLOEXEC
