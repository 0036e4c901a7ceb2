/* produce: replays Produce v9 requests over N connections with D in flight on each. */
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
    long frame;              /* the frame being sent, or next to send */
    size_t sent;             /* how much of it is out */
    long started, finished;  /* requests begun, replies in */
    double *began;           /* ring of DEPTH start times */
    size_t held;
    unsigned char reply[REPLY];
};

static struct frames frames;
static long depth, limit, started;
static int poll_fd;
static double bytes_out;

/* Sends until DEPTH requests are in flight, the limit is reached or the socket is full. */
static void push(struct producer *c, uint32_t id) {
    while (c->sent || (c->started - c->finished < depth && started < limit)) {
        if (!c->sent) {
            c->began[c->started++ % depth] = now();
            started++;
        }
        const unsigned char *rest = frames.data + frames.at[c->frame] + c->sent;
        ssize_t n = send(c->fd, rest, frames.size[c->frame] - c->sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) die("send");
        if (n < 0) {
            if (!c->blocked) watch(poll_fd, c->fd, id, EPOLLIN | EPOLLOUT, 1);
            c->blocked = 1;
            if (!c->sent) c->started--, started--; /* nothing of it is out: it has not begun */
            return;
        }
        bytes_out += n;
        c->sent += n;
        if (c->sent == frames.size[c->frame]) c->sent = 0, c->frame = (c->frame + 1) % frames.count;
    }
    if (c->blocked) watch(poll_fd, c->fd, id, EPOLLIN, 1);
    c->blocked = 0;
}

int run_produce(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "usage: load produce PORT CONNECTIONS DEPTH SECONDS MAX-BYTES MAX-REQUESTS FRAMES\n");
        return 2;
    }
    int port = atoi(argv[0]), connections = atoi(argv[1]);
    double seconds = atof(argv[3]), most = atof(argv[4]), bytes_in = 0;
    depth = atol(argv[2]);
    limit = atol(argv[5]) ? atol(argv[5]) : (long)1 << 60;
    frames = read_frames(argv[6]);
    poll_fd = open_poll();
    struct producer *all = calloc(connections, sizeof *all);
    for (int i = 0; i < connections; i++) {
        all[i].fd = open_connection(port);
        all[i].frame = i % frames.count;
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
