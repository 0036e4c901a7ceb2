/* tail: one producer and N consumers at the end of the log, each holding a long poll.
 *
 * A record is produced to one partition after the other; the time from sending it until a consumer has it is a sample.
 * The next record goes out when all consumers have this one and a pause has passed, so that every poll is parked again.
 * Each consumer has a poll at every leader, and there is a frame for each in the fetch file, with the partitions it leads.
 * With one frame more the consumers keep fetch sessions (KIP-227): the others open them, the last is the incremental
 * request, which names one partition. */
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REPLY = 1 << 20, READY = 256, ENTRY = FETCH_ENTRY, INDEX = 0, OFFSET = 8 };

struct peer {
    int fd;
    long leader;
    size_t held;
    unsigned char *reply;
    unsigned char *request; /* sessionless: this consumer's own copy, offsets patched */
    uint32_t session, epoch;
    long had; /* the last record it got */
};

static struct frames produce, fetch;
static struct leaders leaders;
static int session;
static size_t entries_at, entry_at, session_at;
static long partitions, *leader_of, *place; /* of a partition: its leader, and its place in that one's frame */
static int64_t *next; /* offset of the next record, by partition */
static double bytes_out, bytes_in;

static void send_frame(struct peer *c, const unsigned char *data, size_t size) {
    /* Requests are small and few are in flight: the socket always takes them whole. */
    if (send(c->fd, data, size, MSG_NOSIGNAL) != (ssize_t)size) die("send");
    bytes_out += size;
}

static void poll_again(struct peer *c, uint32_t index, int64_t offset) {
    if (!session) {
        put64(c->request + entries_at + place[index] * ENTRY + OFFSET, offset);
        send_frame(c, c->request, fetch.size[c->leader]);
        return;
    }
    unsigned char *frame = fetch.data + fetch.at[leaders.count];
    put32(frame + session_at, c->session);
    put32(frame + session_at + 4, c->epoch++);
    put32(frame + entry_at + INDEX, index);
    put64(frame + entry_at + OFFSET, offset);
    send_frame(c, frame, fetch.size[leaders.count]);
}

/* Record bytes in a Fetch v12 reply, and the partition they are of. */
static uint64_t records_of(struct peer *c, const unsigned char *frame, size_t size, uint32_t *index) {
    const unsigned char *p = frame + 19, *end = frame + size;
    uint64_t found = 0;
    if (size < 21) refuse("a reply of %zu bytes", size);
    if (frame[13] || frame[14]) refuse("fetch failed with error %d", (int16_t)(frame[13] << 8 | frame[14]));
    c->session = get32(frame + 15);
    for (uint64_t topics = get_uvarint(&p, end); topics > 1; topics--) {
        p += get_uvarint(&p, end) - 1;
        for (uint64_t n = get_uvarint(&p, end); n > 1; n--) {
            if (end - p < 36) refuse("a reply ends early");
            const unsigned char *entry = p;
            int error = (int16_t)(p[4] << 8 | p[5]);
            if (error) refuse("fetch of partition %u failed with error %d", get32(p), error);
            p += 30;
            if (get_uvarint(&p, end) > 1) refuse("aborted transactions in a plain log");
            p += 4;
            uint64_t records = get_uvarint(&p, end);
            if (records > 1) found = records - 1, *index = get32(entry), p += found;
            if (get_uvarint(&p, end)) refuse("tagged fields in a partition");
        }
        if (get_uvarint(&p, end)) refuse("tagged fields in a topic");
    }
    return found;
}

/* One whole frame at the head of the buffer, or 0. */
static size_t whole(struct peer *c) {
    if (c->held < 4) return 0;
    size_t size = 4 + (size_t)get32(c->reply);
    if (size > REPLY) refuse("a reply of %zu bytes", size);
    return c->held < size ? 0 : size;
}

static void fill(struct peer *c) {
    ssize_t r = recv(c->fd, c->reply + c->held, REPLY - c->held, 0);
    if (r == 0) refuse("the broker closed a connection");
    if (r < 0 && errno != EAGAIN) die("recv");
    if (r > 0) c->held += r, bytes_in += r;
}

static void drop(struct peer *c, size_t size) { memmove(c->reply, c->reply + size, c->held -= size); }

/* Before the measurement: one record into each partition tells where its log ends. */
static void find_ends(struct peer *writers, int poll) {
    struct epoll_event e;
    for (long p = 0; p < partitions; p++) {
        struct peer *writer = &writers[leader_of[p]];
        send_frame(writer, produce.data + produce.at[p], produce.size[p]);
        size_t size;
        double began = now();
        while (!(size = whole(writer))) {
            if (now() - began > 30) refuse("no answer to the first record");
            if (epoll_wait(poll, &e, 1, 100) > 0) fill(writer);
        }
        next[p] = check_produced(writer->reply, size) + 1;
        drop(writer, size);
    }
}

static uint32_t first_of(long leader) { return get32(fetch.data + fetch.at[leader] + entries_at + INDEX); }

static void find_leaders(void) {
    leader_of = calloc(partitions, sizeof *leader_of);
    place = calloc(partitions, sizeof *place);
    for (long i = 0; i < leaders.count; i++) {
        for (long at = 0; at < entries_in(&fetch, i, entries_at); at++) {
            uint32_t index = get32(fetch.data + fetch.at[i] + entries_at + at * ENTRY + INDEX);
            if (index >= (uint64_t)partitions) refuse("partition %u of %ld", index, partitions);
            leader_of[index] = i;
            place[index] = at;
        }
    }
}

int run_tail(int argc, char **argv) {
    if (argc != 9) {
        fprintf(stderr, "usage: load tail PORTS CONSUMERS SECONDS PAUSE-US PRODUCE-FRAMES FETCH-FRAMES ENTRIES-AT "
                        "INCREMENTAL-ENTRY-AT SESSION-AT\n");
        return 2;
    }
    int consumers = atoi(argv[1]), pause = atoi(argv[3]);
    double seconds = atof(argv[2]);
    produce = read_frames(argv[4]);
    fetch = read_frames(argv[5]);
    entries_at = atol(argv[6]);
    entry_at = atol(argv[7]);
    session_at = atol(argv[8]);
    partitions = produce.count;
    next = calloc(partitions, sizeof *next);
    leaders = read_leaders(argv[0], 0);
    session = fetch.count > leaders.count;
    if (fetch.count != leaders.count + session) refuse("%ld requests for %ld leaders", fetch.count, leaders.count);
    find_leaders();
    int poll = open_poll();
    long readers = consumers * leaders.count; /* their connections; those of the producer follow */
    struct peer *all = calloc(readers + leaders.count, sizeof *all);
    struct peer *writers = &all[readers];
    for (long i = 0; i < readers + leaders.count; i++) {
        all[i].leader = i % leaders.count;
        all[i].fd = open_connection(leaders.all[all[i].leader].port);
        all[i].reply = malloc(REPLY);
        if (i >= readers) watch(poll, all[i].fd, i, EPOLLIN, 0);
    }
    find_ends(writers, poll);
    for (long i = 0; i < readers; i++) {
        struct peer *c = &all[i];
        size_t size = fetch.size[c->leader];
        watch(poll, c->fd, i, EPOLLIN, 0);
        c->request = memcpy(malloc(size), fetch.data + fetch.at[c->leader], size);
        for (long p = 0; p < partitions; p++)
            if (leader_of[p] == c->leader) put64(c->request + entries_at + place[p] * ENTRY + OFFSET, next[p]);
        send_frame(c, c->request, size);
        c->epoch = 1;
    }
    usleep(300000); /* the polls get parked */
    struct samples latency = {0};
    struct epoll_event ready[READY];
    bytes_in = bytes_out = 0;
    double began = now();
    for (long record = 1; now() - began < seconds; record++) {
        uint32_t target = (uint32_t)(record % partitions);
        int waiting = consumers + 1; /* the acknowledgement, too */
        double sent = now();
        send_frame(&writers[leader_of[target]], produce.data + produce.at[target], produce.size[target]);
        while (waiting) {
            if (now() - sent > 10) refuse("a record was not delivered within 10 s");
            int n = epoll_wait(poll, ready, READY, 1000);
            for (int j = 0; j < n; j++) {
                struct peer *c = &all[ready[j].data.u32];
                fill(c);
                double t = now();
                for (size_t size; (size = whole(c)); drop(c, size)) {
                    uint32_t index = target;
                    if (c >= writers) {
                        check_produced(c->reply, size);
                        waiting--;
                        continue;
                    }
                    if (records_of(c, c->reply, size, &index)) {
                        if (index != target) refuse("a record of partition %u while %u was written", index, target);
                        if (c->had == record) refuse("a record was delivered twice");
                        c->had = record;
                        add_sample(&latency, t - sent);
                        waiting--;
                    }
                    /* After its record, or when the poll ran out. */
                    index = leader_of[target] == c->leader ? target : first_of(c->leader);
                    poll_again(c, index, next[index] + (index == target && c->had == record));
                }
            }
        }
        next[target]++;
        usleep(pause);
    }
    report(&latency, now() - began, latency.count, bytes_out, bytes_in);
    return 0;
}
