/* LD_PRELOAD: a monotonic clock that goes at 1/BENCH_SLOW_CLOCK of its rate.
 *
 * Under Valgrind a request takes many times as long, and what a broker does by the clock would be done as many times more
 * often for each request. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long begun;
static long factor;

int clock_gettime(clockid_t clock, struct timespec *at) {
    int result = (int)syscall(SYS_clock_gettime, clock, at);
    if (clock != CLOCK_MONOTONIC || result)
        return result;
    long long now = at->tv_sec * 1000000000LL + at->tv_nsec;
    if (!factor) {
        const char *given = getenv("BENCH_SLOW_CLOCK");
        factor = given ? atol(given) : 1;
        begun = now;
    }
    now = begun + (now - begun) / factor;
    at->tv_sec = now / 1000000000LL;
    at->tv_nsec = now % 1000000000LL;
    return 0;
}
