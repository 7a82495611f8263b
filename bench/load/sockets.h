/* Sockets, plain and TLS: bytes in, bytes out, one epoll instance for all. */
#ifndef TWINBUS_BENCH_SOCKETS_H
#define TWINBUS_BENCH_SOCKETS_H

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

#include "incoming.h"

enum { READ_CHUNK = 256 * 1024 };

enum transport { WOULD_BLOCK = -1, BROKEN = -2 };

static ssize_t transport_result(struct connection *c, ssize_t result)
{
    if (result > 0)
        return result;
    if (!c->tls)
        return result < 0 && (errno == EAGAIN || errno == EINTR) ? WOULD_BLOCK : BROKEN;
    int reason = SSL_get_error(c->tls, (int)result);
    return reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE
        ? WOULD_BLOCK : BROKEN;
}

static ssize_t read_some(struct connection *c)
{
    reserve(&c->in, READ_CHUNK);
    uint8_t *at = c->in.data + c->in.size;
    ssize_t result = c->tls ? SSL_read(c->tls, at, READ_CHUNK) : read(c->fd, at, READ_CHUNK);
    return transport_result(c, result);
}

static void lose(struct connection *c)
{
    if (c->stage != STAGE_CLOSING)
        give_up("the connection was lost");
    disconnect(c);
}

static void watch_writing(struct connection *c, bool is_wanted)
{
    if (c->is_writing_watched == is_wanted)
        return;
    c->is_writing_watched = is_wanted;
    struct epoll_event event = {EPOLLIN | (is_wanted ? EPOLLOUT : 0), {.ptr = c}};
    epoll_ctl(run.poll, EPOLL_CTL_MOD, c->fd, &event);
}

static void flush(struct connection *c)
{
    while (c->stage != STAGE_CLOSED && c->out_start < c->out.size) {
        const uint8_t *at = c->out.data + c->out_start;
        size_t size = c->out.size - c->out_start;
        ssize_t written = transport_result(
            c, c->tls ? SSL_write(c->tls, at, (int)size) : write(c->fd, at, size));
        if (written == BROKEN) {
            lose(c);
            return;
        }
        if (written == WOULD_BLOCK) {
            watch_writing(c, true);
            return;
        }
        c->out_start += (size_t)written;
        c->last_write_ns = now_ns();
    }
    c->out.size = c->out_start = 0;
    if (c->stage != STAGE_CLOSED)
        watch_writing(c, false);
}

static void pump(struct connection *c)
{
    if (c->stage == STAGE_RUN) {
        flush_settlements(c);
        if (c->role == ROLE_SENDER)
            pump_sender(c);
        else
            grant_credit(c);
    }
    flush(c);
}

static void on_readable(struct connection *c)
{
    ssize_t size;
    do {
        size = read_some(c);
        if (size == BROKEN) {
            lose(c);
            return;
        }
        if (size > 0) {
            c->in.size += (size_t)size;
            parse_input(c);
        }
        /* TLS may hold more than epoll can see; a plain socket is read once a turn. */
    } while (size > 0 && c->tls && c->stage != STAGE_CLOSED);
}

static int dial(void)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int fd = -1;
    if (getaddrinfo(options.host, options.port, &hints, &found))
        return -1;
    for (struct addrinfo *one = found; one && fd < 0; one = one->ai_next) {
        fd = socket(one->ai_family, one->ai_socktype, one->ai_protocol);
        if (fd >= 0 && connect(fd, one->ai_addr, one->ai_addrlen)) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

static SSL *start_tls(int fd)
{
    static SSL_CTX *context;
    if (!context) {
        context = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE
                                      | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    }
    SSL *tls = SSL_new(context);
    SSL_set_tlsext_host_name(tls, options.hostname);
    SSL_set_fd(tls, fd);
    return SSL_connect(tls) == 1 ? tls : NULL;
}

static bool open_connection(struct connection *c, uint32_t number, enum role role)
{
    struct timeval patience = {.tv_sec = (time_t)options.timeout};
    int on = 1;
    c->number = number;
    c->role = role;
    c->next_scheduled = number;
    c->ring = calloc(run.ring_size, sizeof *c->ring);
    c->granted_ns = calloc(run.ring_size, sizeof *c->granted_ns);
    c->fd = dial();
    if (c->fd < 0)
        return false;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (options.is_tls && !(c->tls = start_tls(c->fd)))
        return false;
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {EPOLLIN, {.ptr = c}};
    epoll_ctl(run.poll, EPOLL_CTL_ADD, c->fd, &event);
    put_protocol_header(c, 3);
    flush(c);
    return true;
}

#endif
