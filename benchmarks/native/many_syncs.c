/* many_syncs DIRECTORY WAY THREADS FILES ROUNDS: appends to FILES files and makes them durable, ROUNDS times.
 *
 * WAY: fdatasync (of each file, by so many threads), started (the same after sync_file_range began to write each),
 * written (the same after sync_file_range waited for each), syncfs (one for all), journal (the bytes once more in one
 * file, which is synced; a shared journal's least), uring (IORING_OP_FSYNC of each in one submission).
 * Prints the microseconds that a file took on average, without the appends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 1200, MOST = 4096 };
static int fds[MOST], files, threads, ended;
static atomic_int next;
static pthread_barrier_t begin, end;

static void check(int failed, const char *what) {
    if (failed) {
        perror(what);
        exit(1);
    }
}

static void *work(void *nothing) {
    for (;;) {
        pthread_barrier_wait(&begin);
        if (ended) return nothing;
        for (int n; (n = atomic_fetch_add(&next, 1)) < files;) check(fdatasync(fds[n]), "fdatasync");
        pthread_barrier_wait(&end);
    }
}

static int ring;
static struct io_uring_params with;
static char *submitted, *completed;
static struct io_uring_sqe *entries;

static void make_ring(void) {
    ring = syscall(SYS_io_uring_setup, MOST, &with);
    check(ring < 0, "io_uring_setup");
    submitted = mmap(NULL, with.sq_off.array + with.sq_entries * sizeof(unsigned), PROT_READ | PROT_WRITE, MAP_SHARED,
                     ring, IORING_OFF_SQ_RING);
    completed = mmap(NULL, with.cq_off.cqes + with.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE,
                     MAP_SHARED, ring, IORING_OFF_CQ_RING);
    entries = mmap(NULL, with.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    check(submitted == MAP_FAILED || completed == MAP_FAILED || entries == MAP_FAILED, "mmap");
}

static void sync_by_ring(void) {
    unsigned *order = (unsigned *)(submitted + with.sq_off.array), *tail = (unsigned *)(submitted + with.sq_off.tail);
    unsigned *head = (unsigned *)(completed + with.cq_off.head);
    struct io_uring_cqe *results = (struct io_uring_cqe *)(completed + with.cq_off.cqes);
    for (int n = 0; n < files; n++) {
        unsigned at = (*tail + n) & (with.sq_entries - 1);
        memset(&entries[at], 0, sizeof *entries);
        entries[at].opcode = IORING_OP_FSYNC;
        entries[at].fd = fds[n];
        entries[at].fsync_flags = IORING_FSYNC_DATASYNC;
        order[at] = at;
    }
    __atomic_store_n(tail, *tail + files, __ATOMIC_RELEASE);
    check(syscall(SYS_io_uring_enter, ring, files, files, IORING_ENTER_GETEVENTS, NULL, 0) != files, "io_uring_enter");
    for (int n = 0; n < files; n++) check(results[(*head + n) & (with.cq_entries - 1)].res != 0, "fsync");
    __atomic_store_n(head, *head + files, __ATOMIC_RELEASE);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int count, char **arguments) {
    if (count != 6) return 2;
    const char *way = arguments[2];
    threads = atoi(arguments[3]), files = atoi(arguments[4]);
    int rounds = atoi(arguments[5]), is_syncfs = !strcmp(way, "syncfs"), is_journal = !strcmp(way, "journal");
    int is_ring = !strcmp(way, "uring"), waits = !strcmp(way, "written"), starts = waits || !strcmp(way, "started");
    char name[32], data[SIZE];
    memset(data, 7, sizeof data);
    check(files > MOST || chdir(arguments[1]), "directory");
    int here = open(".", O_RDONLY), journal = open("journal", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int n = 0; n < files; n++) {
        snprintf(name, sizeof name, "file-%d", n);
        check((fds[n] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644)) < 0, "open");
    }
    syncfs(here);
    if (is_ring) make_ring();
    pthread_t thread;
    pthread_barrier_init(&begin, NULL, threads + 1);
    pthread_barrier_init(&end, NULL, threads + 1);
    for (int n = 0; n < threads; n++) check(pthread_create(&thread, NULL, work, NULL), "thread");
    double took = 0;
    for (int round = 0; round < rounds; round++) {
        for (int n = 0; n < files; n++) check(pwrite(fds[n], data, SIZE, (off_t)round * SIZE) != SIZE, "append");
        double began = now();
        for (int n = 0; n < files && starts; n++) sync_file_range(fds[n], 0, 0, SYNC_FILE_RANGE_WRITE);
        for (int n = 0; n < files && waits; n++) sync_file_range(fds[n], 0, 0, 7);
        if (is_syncfs) {
            check(syncfs(here), "syncfs");
        } else if (is_ring) {
            sync_by_ring();
        } else if (is_journal) {
            for (int n = 0; n < files; n++) check(write(journal, data, SIZE) != SIZE, "append");
            check(fdatasync(journal), "fdatasync");
        } else {
            next = 0;
            pthread_barrier_wait(&begin);
            pthread_barrier_wait(&end);
        }
        took += now() - began;
    }
    ended = 1;
    pthread_barrier_wait(&begin);
    printf("%.2f\n", took * 1e6 / rounds / files);
    return 0;
}
