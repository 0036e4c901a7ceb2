/* What the three loads share: non-blocking connections over epoll, frames to replay, latencies, and the JSON line they
 * end with.
 *
 * Every load is one thread, closed loop, on loopback only, and bounded in time.  A reply that carries a Kafka error ends
 * the program with status 1: a broker that refuses quickly must not look fast. */
#ifndef LOAD_H
#define LOAD_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a partition in a Fetch v12 request, and of what follows the last one. */
enum { FETCH_ENTRY = 33, FETCH_END = 4 };

/* A file of length-prefixed requests, replayed as they are. */
struct frames {
    unsigned char *data;
    size_t *at, *size; /* of each frame, the length prefix included */
    long count;
    size_t total;
};

struct samples {
    double *value; /* seconds */
    long count, room;
};

/* A broker that is sent to: its port, and which of the frames are for it. */
struct leader {
    int port;
    long *frame, frames;
};

struct leaders {
    struct leader *all;
    long count;
};

double now(void);
void die(const char *what);
void refuse(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
int open_connection(int port);
int open_poll(void);
void watch(int poll, int fd, uint32_t id, uint32_t events, int known);
struct frames read_frames(const char *path);
/* From ports with commas between: one for all the frames, or one for each.  Without frames, there is one for each port. */
struct leaders read_leaders(const char *ports, long frames);
/* A client has a connection to each leader; where there are more connections, they are divided among the leaders. */
long connections_to(const struct leaders *l, long connections);
/* How many partitions a Fetch v12 request names, from where the first is. */
long entries_in(const struct frames *f, long frame, size_t entries_at);
/* Until the time is over; for the first reply, PATIENCE seconds longer. */
int proceeds(double t, double began, double seconds, long replies);
void add_sample(struct samples *s, double seconds);
void report(struct samples *s, double took, double requests, double bytes_out, double bytes_in);

/* Big-endian integers where they lie. */
uint32_t get32(const unsigned char *p);
int64_t get64(const unsigned char *p);
void put16(unsigned char *p, uint16_t v);
void put32(unsigned char *p, uint32_t v);
void put64(unsigned char *p, uint64_t v);
/* Reads an unsigned varint at *p, moving it on; ends the program past `end`. */
uint64_t get_uvarint(const unsigned char **p, const unsigned char *end);

/* Steps over a Produce v9 response (length prefix included), checking every partition's error code.
 * Returns the base offset given to the last partition's batch. */
int64_t check_produced(const unsigned char *frame, size_t size);

int run_produce(int argc, char **argv);
int run_fetch(int argc, char **argv);
int run_tail(int argc, char **argv);

#endif
