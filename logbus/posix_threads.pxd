# Threads that know no Python: what the modules that have some need of POSIX.

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t:
        pass
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    ctypedef struct pthread_attr_t:
        pass
    int pthread_mutex_init(pthread_mutex_t *, void *)
    int pthread_mutex_lock(pthread_mutex_t *)
    int pthread_mutex_unlock(pthread_mutex_t *)
    int pthread_cond_init(pthread_cond_t *, void *)
    int pthread_cond_wait(pthread_cond_t *, pthread_mutex_t *)
    int pthread_cond_signal(pthread_cond_t *)
    int pthread_cond_broadcast(pthread_cond_t *)
    int pthread_attr_init(pthread_attr_t *)
    int pthread_attr_destroy(pthread_attr_t *)
    int pthread_attr_setstacksize(pthread_attr_t *, size_t)
    int pthread_attr_setdetachstate(pthread_attr_t *, int)
    int pthread_create(pthread_t *, pthread_attr_t *, void *(*)(void *) noexcept nogil, void *)
    int PTHREAD_CREATE_DETACHED

cdef extern from "<signal.h>" nogil:
    ctypedef struct sigset_t:
        pass
    int sigfillset(sigset_t *)
    int pthread_sigmask(int, sigset_t *, sigset_t *)
    int SIG_SETMASK

cdef extern from "<sys/eventfd.h>" nogil:
    int eventfd(unsigned int, int)
    int EFD_CLOEXEC
    int EFD_NONBLOCK


cdef inline bint start_thread(void *(*run)(void *) noexcept nogil, void *argument) noexcept nogil:
    # Detached, with a small stack; signals are for the process's other threads. Returns whether it could be started.
    cdef pthread_t thread
    cdef pthread_attr_t attributes
    cdef sigset_t every, before
    cdef int failed
    pthread_attr_init(&attributes)
    pthread_attr_setstacksize(&attributes, 1 << 16)
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED)
    sigfillset(&every)
    pthread_sigmask(SIG_SETMASK, &every, &before)
    failed = pthread_create(&thread, &attributes, run, argument)
    pthread_sigmask(SIG_SETMASK, &before, NULL)
    pthread_attr_destroy(&attributes)
    return not failed
