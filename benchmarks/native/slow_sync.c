/* LD_PRELOAD: counts a process' calls of fsync, fdatasync and syncfs, and delays each.
 *
 * BENCH_SYNC_DELAY_US: how long each call takes longer.  BENCH_SYNC_COUNT: a file of 8 bytes, mapped, that counts the
 * calls (little-endian on the machines this runs on), so that whoever injects the delay can see that it took effect. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t *counter;
static long delay_us;

__attribute__((constructor)) static void prepare(void) {
    const char *delay = getenv("BENCH_SYNC_DELAY_US"), *path = getenv("BENCH_SYNC_COUNT");
    if (delay) delay_us = atol(delay);
    if (!path) return;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *page = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED) counter = page;
}

static int delayed(const char *name, int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    int result = real(fd), kept = errno;
    if (counter) atomic_fetch_add(counter, 1);
    if (delay_us) {
        struct timespec t = {delay_us / 1000000, delay_us % 1000000 * 1000};
        while (nanosleep(&t, &t) && errno == EINTR);
    }
    errno = kept;
    return result;
}

int fsync(int fd) { return delayed("fsync", fd); }
int fdatasync(int fd) { return delayed("fdatasync", fd); }
int syncfs(int fd) { return delayed("syncfs", fd); }
