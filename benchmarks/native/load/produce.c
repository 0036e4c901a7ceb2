/* produce: replays Produce v9 requests over N connections with D in flight on each, every request to its leader. */
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { REPLY = 65536, READY = 256 };

struct producer {
    int fd, blocked;
    struct quota *quota;
    long turn;               /* which of its leader's frames is being sent, or is next */
    size_t sent;             /* how much of it is out */
    long started, finished;  /* requests begun, replies in */
    double *began;           /* ring of DEPTH start times */
    size_t held;
    unsigned char reply[REPLY];
};

/* How many requests a leader is sent, as its share of the frames is. */
struct quota {
    const struct leader *leader;
    long limit, started;
};

static struct frames frames;
static long depth;
static int poll_fd;
static double bytes_out;

/* Sends until DEPTH requests are in flight, the limit is reached or the socket is full. */
static void push(struct producer *c, uint32_t id) {
    struct quota *q = c->quota;
    while (c->sent || (c->started - c->finished < depth && q->started < q->limit)) {
        if (!c->sent) {
            c->began[c->started++ % depth] = now();
            q->started++;
        }
        long frame = q->leader->frame[c->turn];
        const unsigned char *rest = frames.data + frames.at[frame] + c->sent;
        ssize_t n = send(c->fd, rest, frames.size[frame] - c->sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) die("send");
        if (n < 0) {
            if (!c->blocked) watch(poll_fd, c->fd, id, EPOLLIN | EPOLLOUT, 1);
            c->blocked = 1;
            if (!c->sent) c->started--, q->started--; /* nothing of it is out: it has not begun */
            return;
        }
        bytes_out += n;
        c->sent += n;
        if (c->sent == frames.size[frame]) c->sent = 0, c->turn = (c->turn + 1) % q->leader->frames;
    }
    if (c->blocked) watch(poll_fd, c->fd, id, EPOLLIN, 1);
    c->blocked = 0;
}

int run_produce(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "usage: load produce PORTS CONNECTIONS DEPTH SECONDS MAX-BYTES MAX-REQUESTS FRAMES\n");
        return 2;
    }
    double seconds = atof(argv[3]), most = atof(argv[4]), bytes_in = 0;
    long limit = atol(argv[5]) ? atol(argv[5]) : (long)1 << 60;
    depth = atol(argv[2]);
    frames = read_frames(argv[6]);
    struct leaders leaders = read_leaders(argv[0], frames.count);
    long connections = connections_to(&leaders, atol(argv[1]));
    struct quota *quotas = calloc(leaders.count, sizeof *quotas);
    for (long i = 0; i < leaders.count; i++) {
        quotas[i].leader = &leaders.all[i];
        quotas[i].limit = leaders.count == 1 ? limit : limit / frames.count * leaders.all[i].frames;
    }
    poll_fd = open_poll();
    struct producer *all = calloc(connections, sizeof *all);
    for (int i = 0; i < connections; i++) {
        struct quota *q = &quotas[i % leaders.count];
        all[i].quota = q;
        all[i].fd = open_connection(q->leader->port);
        all[i].turn = i / leaders.count % q->leader->frames;
        all[i].began = malloc(sizeof(double) * depth);
        watch(poll_fd, all[i].fd, i, EPOLLIN, 0);
    }
    struct samples latency = {0};
    struct epoll_event ready[READY];
    double began = now(), t = began;
    long finished = 0;
    for (int i = 0; i < connections; i++) push(&all[i], i);
    while (proceeds(t = now(), began, seconds, finished) && bytes_out < most && finished < limit) {
        int n = epoll_wait(poll_fd, ready, READY, 100);
        for (int j = 0; j < n; j++) {
            uint32_t id = ready[j].data.u32;
            struct producer *c = &all[id];
            if (ready[j].events & ~EPOLLOUT) {
                ssize_t r = recv(c->fd, c->reply + c->held, REPLY - c->held, 0);
                if (r == 0) refuse("the broker closed a connection");
                if (r < 0 && errno != EAGAIN) die("recv");
                if (r < 0) r = 0;
                c->held += r;
                bytes_in += r;
                t = now();
                size_t at = 0;
                while (c->held - at >= 4) {
                    size_t size = 4 + (size_t)get32(c->reply + at);
                    if (size > REPLY) refuse("a reply of %zu bytes", size);
                    if (c->held - at < size) break;
                    check_produced(c->reply + at, size);
                    add_sample(&latency, t - c->began[c->finished++ % depth]);
                    finished++;
                    at += size;
                }
                memmove(c->reply, c->reply + at, c->held -= at);
            }
            push(c, id);
        }
    }
    report(&latency, now() - began, finished, bytes_out, bytes_in);
    return 0;
}
