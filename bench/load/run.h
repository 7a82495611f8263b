/* The state of a run: its connections, what it counted, and its first error.
 *
 * An error is counted and its first text kept; the run goes on where that makes sense, and
 * ends where it does not, but it never ends well any more.
 */
#ifndef TWINBUS_BENCH_RUN_H
#define TWINBUS_BENCH_RUN_H

#include <openssl/ssl.h>
#include <stdarg.h>
#include <time.h>

#include "histogram.h"
#include "wire.h"

enum role { ROLE_SENDER, ROLE_RECEIVER };
enum stage {
    STAGE_SASL_HEADER, STAGE_SASL, STAGE_AMQP_HEADER, STAGE_OPEN, STAGE_BEGIN,
    STAGE_TOKEN, STAGE_ATTACH, STAGE_RUN, STAGE_CLOSING, STAGE_CLOSED
};
enum link { LINK_MAIN, LINK_TOKEN_OUT, LINK_TOKEN_IN, LINK_COUNT };
static const char *const link_names[LINK_COUNT] = {"load", "token-out", "token-in"};

/* One delivery in flight, found by its delivery id modulo the ring's size. */
struct slot { uint64_t since_ns; uint32_t id; bool is_busy; };

struct connection {
    int fd;
    SSL *tls;
    enum role role;
    enum stage stage;
    struct buffer in, out, partial;
    size_t out_start;
    bool is_writing_watched, is_close_sent;
    uint32_t number, peer_max_frame, heartbeat_ms;
    uint64_t last_write_ns;
    uint32_t remote_handle[LINK_COUNT];
    bool is_attached[LINK_COUNT];
    uint32_t next_outgoing_id, peer_window, next_incoming_id;
    uint32_t next_delivery_id;      /* ours when sending */
    uint32_t current_delivery_id;   /* of the multi-frame delivery being received */
    bool is_current_settled;
    uint32_t delivery_count, credit, token_credit, in_flight;
    uint64_t next_scheduled;            /* index of its next message at a fixed rate */
    uint32_t range_first, range_size;   /* arrived deliveries not yet settled by us */
    struct slot *ring;
    uint64_t *granted_ns;               /* instant each unit of credit was given */
    uint32_t granted_count;
};

static struct run {
    struct connection *connections;
    uint32_t connection_count, running, closed;
    int poll, timer;
    bool is_started, is_stopping;
    uint32_t ring_size;
    uint64_t sends_started, sends_settled, receives_done;
    uint64_t *receives_granted; /* by place */
    uint64_t started_ns, ended_ns, progress_ns, deadline_ns;
    uint64_t errors, duplicates, overruns;
    char first_error[512];
    struct histogram latency, delivery_latency;
    struct buffer message, seen;
    size_t id_offset, body_offset, ttl_offset, schedule_offset;
    uint64_t random;
} run = {.random = 88172645463325252ull};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void fail(uint64_t how_many, const char *format, ...)
{
    if (!run.errors) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(run.first_error, sizeof run.first_error, format, arguments);
        va_end(arguments);
    }
    run.errors += how_many;
}

/* An error after which going on makes no sense: the run ends with what it has. */
#define give_up(...) do { fail(1, __VA_ARGS__); run.is_stopping = true; } while (0)

#endif
