/* The least a server can do: an epoll loop that gives each request the same answer.
 *
 *   echo REQUEST-BYTES ANSWER-FILE
 *
 * Prints the port it listens on, on loopback.  Requests of that many bytes are counted and not looked at.  A small answer is
 * sent from memory, a large one from the file by sendfile. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALL = 65536, READY = 64, FDS = 1024 };

static size_t received[FDS];
static char request[SMALL], answer[SMALL];

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* Waits where the peer is slow: it asks again only when it has all of the answer. */
static int answer_from(int file, off_t size, int fd) {
    if (size <= SMALL) return send(fd, answer, size, MSG_NOSIGNAL) == size;
    for (off_t at = 0; at < size;)
        if (sendfile(fd, file, &at, size - at) <= 0) return 0;
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: echo REQUEST-BYTES ANSWER-FILE\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN); /* sendfile has no MSG_NOSIGNAL */
    size_t bytes = atol(argv[1]);
    int file = open(argv[2], O_RDONLY | O_CLOEXEC), one = 1;
    struct stat st;
    if (!bytes || file < 0 || fstat(file, &st) || !st.st_size) die(argv[2]);
    if (st.st_size <= SMALL && read(file, answer, st.st_size) != st.st_size) die(argv[2]);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof a;
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), poll = epoll_create1(EPOLL_CLOEXEC);
    if (server < 0 || poll < 0 || bind(server, (struct sockaddr *)&a, length) || listen(server, 128)) die("listen");
    getsockname(server, (struct sockaddr *)&a, &length);
    printf("%d\n", ntohs(a.sin_port));
    fflush(stdout);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = server}, ready[READY];
    epoll_ctl(poll, EPOLL_CTL_ADD, server, &e);
    for (;;) {
        int n = epoll_wait(poll, ready, READY, -1);
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            if (fd == server) {
                int peer = accept(server, NULL, NULL);
                if (peer < 0 || peer >= FDS) die("accept");
                setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                received[peer] = 0;
                e = (struct epoll_event){.events = EPOLLIN, .data.fd = peer};
                epoll_ctl(poll, EPOLL_CTL_ADD, peer, &e);
                continue;
            }
            ssize_t r = recv(fd, request, SMALL, MSG_DONTWAIT);
            if (r < 0 && errno == EAGAIN) continue;
            int open = r > 0;
            for (received[fd] += open ? r : 0; open && received[fd] >= bytes; received[fd] -= bytes)
                open = answer_from(file, st.st_size, fd);
            if (!open) close(fd);
        }
    }
}
