#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE = 20 };

double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

void die(const char *what) {
    perror(what);
    exit(1);
}

void refuse(const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, rest);
    fputc('\n', stderr);
    exit(1);
}

int open_connection(int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

int open_poll(void) {
    int poll = epoll_create1(EPOLL_CLOEXEC);
    if (poll < 0) die("epoll_create1");
    return poll;
}

void watch(int poll, int fd, uint32_t id, uint32_t events, int known) {
    struct epoll_event e = {.events = events, .data.u32 = id};
    if (epoll_ctl(poll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e)) die("epoll_ctl");
}

struct frames read_frames(const char *path) {
    struct frames f = {0};
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) die(path);
    f.total = st.st_size;
    f.data = malloc(f.total + 1);
    for (size_t got = 0; got < f.total;) {
        ssize_t n = read(fd, f.data + got, f.total - got);
        if (n <= 0) die(path);
        got += n;
    }
    close(fd);
    for (size_t at = 0; at < f.total; f.count++) {
        if (f.total - at < 4 || f.total - at - 4 < get32(f.data + at)) refuse("%s ends within a frame", path);
        f.at = realloc(f.at, sizeof *f.at * (f.count + 1));
        f.size = realloc(f.size, sizeof *f.size * (f.count + 1));
        f.at[f.count] = at;
        f.size[f.count] = 4 + get32(f.data + at);
        at += f.size[f.count];
    }
    if (!f.count) refuse("%s holds no frame", path);
    return f;
}

struct leaders read_leaders(const char *ports, long frames) {
    struct leaders l = {0};
    long given = 1;
    for (const char *p = ports; *p; p++) given += *p == ',';
    if (!frames) frames = given;
    if (given != 1 && given != frames) refuse("%ld ports for %ld frames", given, frames);
    const char *next = ports;
    int port = 0;
    for (long f = 0; f < frames; f++) {
        if (f < given) {
            char *rest;
            port = (int)strtol(next, &rest, 10);
            if (port < 1 || port > 65535 || (*rest && *rest != ',')) refuse("%s: not a port", next);
            next = rest + 1;
        }
        long i = 0;
        while (i < l.count && l.all[i].port != port) i++;
        if (i == l.count) {
            l.all = realloc(l.all, sizeof *l.all * ++l.count);
            l.all[i] = (struct leader){.port = port};
        }
        struct leader *one = &l.all[i];
        one->frame = realloc(one->frame, sizeof *one->frame * (one->frames + 1));
        one->frame[one->frames++] = f;
    }
    return l;
}

long connections_to(const struct leaders *l, long connections) { return connections > l->count ? connections : l->count; }

long entries_in(const struct frames *f, long frame, size_t entries_at) {
    size_t size = f->size[frame];
    if (size < entries_at + FETCH_END || (size - entries_at - FETCH_END) % FETCH_ENTRY)
        refuse("partitions do not begin at %zu in a request of %zu bytes", entries_at, size);
    return (long)((size - entries_at - FETCH_END) / FETCH_ENTRY);
}

int proceeds(double t, double began, double seconds, long replies) {
    return t - began < seconds || (!replies && t - began < seconds + PATIENCE);
}

void add_sample(struct samples *s, double seconds) {
    if (s->count == s->room) s->value = realloc(s->value, sizeof(double) * (s->room = s->room ? s->room * 2 : 1 << 16));
    s->value[s->count++] = seconds;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const struct samples *s, double share) { return s->value[(long)(s->count * share)] * 1e6; }

void report(struct samples *s, double took, double requests, double bytes_out, double bytes_in) {
    if (!s->count) refuse("no reply in %.1f s", took);
    qsort(s->value, s->count, sizeof(double), ascending);
    printf("{\"seconds\": %.6f, \"requests\": %.0f, \"bytes_out\": %.0f, \"bytes_in\": %.0f, \"samples\": %ld, "
           "\"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f}\n",
           took, requests, bytes_out, bytes_in, s->count, quantile(s, .5), quantile(s, .99), quantile(s, .999),
           s->value[s->count - 1] * 1e6);
}

uint32_t get32(const unsigned char *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }
int64_t get64(const unsigned char *p) { return (int64_t)((uint64_t)get32(p) << 32 | get32(p + 4)); }
void put16(unsigned char *p, uint16_t v) { p[0] = v >> 8, p[1] = v; }
void put32(unsigned char *p, uint32_t v) { put16(p, v >> 16), put16(p + 2, v); }
void put64(unsigned char *p, uint64_t v) { put32(p, v >> 32), put32(p + 4, v); }

uint64_t get_uvarint(const unsigned char **p, const unsigned char *end) {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (*p >= end) refuse("a reply ends within a varint");
        unsigned char b = *(*p)++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) return v;
    }
    refuse("a reply holds a varint of more than 64 bits");
}

static void step(const unsigned char **p, const unsigned char *end, uint64_t n) {
    if ((uint64_t)(end - *p) < n) refuse("a reply ends early");
    *p += n;
}

static void skip_tags(const unsigned char **p, const unsigned char *end) {
    for (uint64_t n = get_uvarint(p, end); n; n--) {
        get_uvarint(p, end);
        step(p, end, get_uvarint(p, end));
    }
}

int64_t check_produced(const unsigned char *frame, size_t size) {
    int64_t offset = -1;
    const unsigned char *p = frame + 8, *end = frame + size; /* past the length and the correlation id */
    skip_tags(&p, end);
    for (uint64_t topics = get_uvarint(&p, end); topics > 1; topics--) {
        step(&p, end, get_uvarint(&p, end) - 1); /* the name */
        for (uint64_t partitions = get_uvarint(&p, end); partitions > 1; partitions--) {
            const unsigned char *entry = p;
            step(&p, end, 4 + 2 + 8 + 8 + 8);
            int error = (int16_t)(entry[4] << 8 | entry[5]);
            if (error) refuse("produce to partition %u failed with error %d", get32(entry), error);
            for (uint64_t errors = get_uvarint(&p, end); errors > 1; errors--) refuse("a record was refused");
            offset = get64(entry + 6);
            uint64_t message = get_uvarint(&p, end);
            if (message) step(&p, end, message - 1);
            skip_tags(&p, end);
        }
        skip_tags(&p, end);
    }
    return offset;
}
