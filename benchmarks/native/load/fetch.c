/* fetch: N readers catch up, each over its own connection, one Fetch v12 in flight.
 *
 * The log was filled with equal batches, so what a reply holds is known from its length, and the record bytes are taken
 * from the socket without copying them: the reader costs next to nothing and the broker's rate shows.  A reader that
 * comes to the end begins again at offset 0.  There is a frame for each leader, with the partitions it leads. */
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { HELD = 4096, READY = 256, ENTRY = FETCH_ENTRY, OFFSET = 8 };
enum state { HEAD, PARTITION, RECORDS, TAGS };

struct reader {
    int fd, blocked;
    long frame;
    unsigned char *request;
    size_t sent;
    double began;
    enum state state;
    uint64_t left;        /* bytes of the frame not yet taken */
    uint64_t skip;        /* of them, to be dropped now */
    uint64_t partitions;  /* entries still to come */
    uint64_t got;         /* record bytes of this reply */
    size_t held;
    unsigned char head[HELD];
};

static struct frames frames;
static size_t entries_at;
static long partitions, *frame_of, *place; /* of a partition: in which frame, at which place there */
static int64_t batch_bytes, batch_records, end_offset;
static int poll_fd;
static double bytes_out, bytes_in, record_bytes;
static struct samples latency;

static void push(struct reader *c, uint32_t id) {
    size_t size = frames.size[c->frame];
    while (c->sent < size) {
        ssize_t n = send(c->fd, c->request + c->sent, size - c->sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) die("send");
        if (n < 0) {
            watch(poll_fd, c->fd, id, EPOLLIN | EPOLLOUT, 1);
            c->blocked = 1;
            return;
        }
        c->sent += n;
        bytes_out += n;
    }
    if (c->blocked) watch(poll_fd, c->fd, id, EPOLLIN, 1);
    c->blocked = 0;
}

static void next_request(struct reader *c, uint32_t id) {
    c->sent = 0;
    c->got = 0;
    c->state = HEAD;
    c->began = now();
    push(c, id);
}

/* Consumes `n` bytes of the head buffer and of the frame. */
static void take(struct reader *c, size_t n, int in_frame) {
    memmove(c->head, c->head + n, c->held -= n);
    if (in_frame && c->left < n) refuse("a reply's fields run past its length");
    if (in_frame) c->left -= n;
}

static void advance(struct reader *c, uint32_t index, uint64_t bytes) {
    if (index >= (uint64_t)partitions || frame_of[index] != c->frame) refuse("a reply for partition %u", index);
    unsigned char *at = c->request + entries_at + (size_t)place[index] * ENTRY + OFFSET;
    int64_t next = get64(at) + (int64_t)bytes / batch_bytes * batch_records;
    put64(at, next >= end_offset ? 0 : next);
    c->got += bytes;
    record_bytes += (double)(bytes / batch_bytes * batch_bytes); /* a broker may cut the last batch: it comes again */
}

/* Takes what the head buffer allows; true while it made progress. */
static int parse(struct reader *c, uint32_t id) {
    const unsigned char *p = c->head, *end = c->head + c->held;
    if (c->skip) {
        size_t n = c->skip < c->held ? c->skip : c->held;
        take(c, n, 1);
        c->skip -= n;
        return n > 0;
    }
    switch (c->state) {
    case HEAD: /* length, correlation id, tags, throttle, error, session, topics, name */
        if (c->held < 4) return 0;
        c->left = get32(p);
        if (c->held < 4 + c->left && c->held < 512) return 0; /* a name of at most 249 bytes and the counts fit */
        if (c->left < 21) refuse("a reply of %lu bytes", (unsigned long)c->left);
        if (p[13] || p[14]) refuse("fetch failed with error %d", (int16_t)(p[13] << 8 | p[14]));
        p += 19;
        if (get_uvarint(&p, end) != 2) refuse("a reply without the topic");
        p += get_uvarint(&p, end) - 1;
        c->partitions = get_uvarint(&p, end) - 1;
        take(c, 4, 0);
        take(c, p - c->head - 4, 1);
        c->state = PARTITION;
        return 1;
    case PARTITION: { /* index, error, high watermark, last stable offset, log start, aborted, replica, records */
        if (!c->partitions) {
            c->skip = c->left;
            c->state = TAGS;
            return 1;
        }
        if (c->held < 64 && c->held < c->left) return 0;
        if (p[4] || p[5]) refuse("fetch of partition %u failed with error %d", get32(p), (int16_t)(p[4] << 8 | p[5]));
        uint32_t index = get32(p);
        p += 30;
        if (get_uvarint(&p, end) > 1) refuse("aborted transactions in a plain log");
        p += 4;
        uint64_t records = get_uvarint(&p, end);
        records -= records > 0;
        take(c, p - c->head, 1);
        advance(c, index, records);
        c->skip = records;
        c->state = RECORDS;
        c->partitions--;
        return 1;
    }
    case RECORDS: /* the partition's tagged fields */
        if (c->held < 1) return 0;
        if (c->head[0]) refuse("tagged fields in a partition");
        take(c, 1, 1);
        c->state = PARTITION;
        return 1;
    case TAGS:
        if (c->left) refuse("a reply longer than its fields");
        if (!c->got) refuse("an empty reply before the end of the log");
        add_sample(&latency, now() - c->began);
        next_request(c, id);
        return 1;
    }
    return 0;
}

static void find_partitions(void) {
    for (long i = 0; i < frames.count; i++) {
        long n = entries_in(&frames, i, entries_at);
        frame_of = realloc(frame_of, sizeof *frame_of * (partitions + n));
        place = realloc(place, sizeof *place * (partitions + n));
        partitions += n;
    }
    for (long i = 0; i < frames.count; i++) {
        for (long at = 0; at < entries_in(&frames, i, entries_at); at++) {
            uint32_t index = get32(frames.data + frames.at[i] + entries_at + at * ENTRY);
            if (index >= (uint64_t)partitions) refuse("partition %u of %ld", index, partitions);
            frame_of[index] = i;
            place[index] = at;
        }
    }
}

int run_fetch(int argc, char **argv) {
    if (argc != 9) {
        fprintf(stderr, "usage: load fetch PORTS CONNECTIONS SECONDS MAX-BYTES FRAMES ENTRIES-AT BATCH-BYTES "
                        "BATCH-RECORDS END-OFFSET\n");
        return 2;
    }
    double seconds = atof(argv[2]), most = atof(argv[3]);
    frames = read_frames(argv[4]);
    entries_at = atol(argv[5]);
    batch_bytes = atoll(argv[6]);
    batch_records = atoll(argv[7]);
    end_offset = atoll(argv[8]);
    struct leaders leaders = read_leaders(argv[0], frames.count);
    if (leaders.count != frames.count) refuse("two frames for one leader");
    long connections = connections_to(&leaders, atol(argv[1]));
    find_partitions();
    poll_fd = open_poll();
    struct reader *all = calloc(connections, sizeof *all);
    for (int i = 0; i < connections; i++) {
        struct reader *c = &all[i];
        c->frame = i % frames.count;
        size_t size = frames.size[c->frame];
        c->fd = open_connection(leaders.all[c->frame].port);
        c->request = memcpy(malloc(size), frames.data + frames.at[c->frame], size);
        /* Readers are spread over the log. */
        int64_t start = end_offset / batch_records * i / connections * batch_records;
        for (long p = 0; p < entries_in(&frames, c->frame, entries_at); p++)
            put64(c->request + entries_at + p * ENTRY + OFFSET, start);
        watch(poll_fd, c->fd, i, EPOLLIN, 0);
    }
    struct epoll_event ready[READY];
    double began = now();
    for (int i = 0; i < connections; i++) next_request(&all[i], i);
    while (proceeds(now(), began, seconds, latency.count) && bytes_in < most) {
        int n = epoll_wait(poll_fd, ready, READY, 100);
        for (int j = 0; j < n; j++) {
            uint32_t id = ready[j].data.u32;
            struct reader *c = &all[id];
            if (c->sent < frames.size[c->frame]) push(c, id);
            if (!(ready[j].events & ~EPOLLOUT)) continue;
            ssize_t r;
            if (!c->held && c->skip) {
                /* MSG_TRUNC drops the bytes inside the kernel. */
                r = recv(c->fd, NULL, c->skip < 1 << 20 ? c->skip : 1 << 20, MSG_TRUNC);
                if (r > 0) c->skip -= r, c->left -= r;
            } else {
                r = recv(c->fd, c->head + c->held, HELD - c->held, 0);
                if (r > 0) c->held += r;
            }
            if (r == 0) refuse("the broker closed a connection");
            if (r < 0 && errno != EAGAIN) die("recv");
            if (r > 0) bytes_in += r;
            while (parse(c, id));
        }
    }
    report(&latency, now() - began, latency.count, bytes_out, record_bytes);
    return 0;
}
