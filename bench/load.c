/* An AMQP 1.0 load client: saturates a broker from one thread and measures it.
 *
 *     cc -O2 -o build/bench/load bench/load.c -lssl -lcrypto
 *     build/bench/load --help
 *
 * One epoll loop drives all connections, each with one session and one link. A run
 * starts when every link is attached and ends when the last message is settled; it
 * prints one JSON line and exits 0 only if nothing was refused, lost, seen twice or
 * late beyond --timeout. Message ids are numbered, so a receiver notices duplicates
 * and gaps. At a fixed --rate a message's latency counts from the instant it should
 * have been sent, so a stalled server cannot hide behind a sender that waited for it.
 *
 * The parts are headers in load/, from wire.h (bytes) up to sockets.h, compiled as one unit.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/resource.h>

#include "load/sockets.h"

enum {
    IDLE_DRAIN_MS = 500,
    END_PATIENCE_MS = 1000, /* for the answer to `end`, before `close` goes out */
    CLOSE_PATIENCE_MS = 5000,
    TICK_MS = 100,
    RING_SIZE_LEAST = 4096
};

/* the run */

static void open_connections(void)
{
    uint32_t senders = sends() ? options.connections : 0;
    uint32_t receivers = receives() ? options.connections * options.copies : 0;
    run.connection_count = senders + receivers;
    run.connections = calloc(run.connection_count, sizeof *run.connections);
    for (uint32_t i = 0; i < run.connection_count && !run.errors; i++)
        if (!open_connection(&run.connections[i], i, i < senders ? ROLE_SENDER : ROLE_RECEIVER))
            give_up("cannot connect to %s:%s: %s", options.host, options.port,
                    options.is_tls ? "TCP or TLS failed" : strerror(errno));
}

static void start_when_attached(void)
{
    if (run.is_started || run.running < run.connection_count)
        return;
    run.is_started = true;
    run.started_ns = run.progress_ns = now_ns();
    run.deadline_ns = run.started_ns + (uint64_t)(options.duration * 1e9);
    for (uint32_t i = 0; i < run.connection_count; i++)
        pump(&run.connections[i]);
}

static bool are_settled(enum role role)
{
    for (uint32_t i = 0; i < run.connection_count; i++)
        if (run.connections[i].role == role && run.connections[i].in_flight)
            return false;
    return true;
}

static bool is_complete(void)
{
    if (!run.is_started)
        return false;
    uint64_t now = now_ns();
    bool is_due = now >= run.deadline_ns;
    if (options.mode == MODE_DRAIN)
        return now - run.progress_ns > IDLE_DRAIN_MS * 1000000ull;
    if (sends() && (options.count ? run.sends_settled < options.count
                                  : !is_due || run.sends_settled < run.sends_started))
        return false;
    if (options.mode == MODE_BOTH)
        return run.receives_done >= run.sends_settled && are_settled(ROLE_RECEIVER);
    if (options.mode == MODE_RECEIVE)
        return options.count ? run.receives_done >= options.count * options.copies
                             : is_due && are_settled(ROLE_RECEIVER);
    return true;
}

static void check_progress(void)
{
    uint64_t now = now_ns();
    uint64_t quiet_ns = now - (run.is_started ? run.progress_ns : run.started_ns);
    if (options.mode != MODE_DRAIN && quiet_ns > (uint64_t)(options.timeout * 1e9))
        give_up(run.is_started ? "no progress for %.0f s" : "not attached after %.0f s",
                options.timeout);
}

static void send_heartbeats(void)
{
    static const uint8_t heartbeat[FRAME_HEADER_SIZE] = {0, 0, 0, 8, 2, 0, 0, 0};
    uint64_t now = now_ns();
    for (uint32_t i = 0; i < run.connection_count; i++) {
        struct connection *c = &run.connections[i];
        if (c->stage < STAGE_BEGIN || c->stage > STAGE_RUN || !c->heartbeat_ms
            || now - c->last_write_ns < c->heartbeat_ms * 1000000ull)
            continue;
        put_bytes(&c->out, heartbeat, sizeof heartbeat);
        flush(c);
    }
}

static void pump_due_senders(void)
{
    uint64_t expirations;
    ssize_t ignored = read(run.timer, &expirations, sizeof expirations);
    (void)ignored;
    for (uint32_t i = 0; i < run.connection_count; i++)
        if (run.connections[i].role == ROLE_SENDER)
            pump(&run.connections[i]);
}

static void turn(void)
{
    struct epoll_event events[128];
    arm_rate_timer();
    int count = epoll_wait(run.poll, events, 128, TICK_MS);
    for (int i = 0; i < count; i++) {
        struct connection *c = events[i].data.ptr;
        if (!c) {
            pump_due_senders();
            continue;
        }
        if (c->stage != STAGE_CLOSED && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            on_readable(c);
        pump(c);
    }
}

/* The session ends first: RabbitMQ forgets settlements that a close overtakes. */
static void start_closing(struct connection *c)
{
    if (c->fd <= 0 || c->stage == STAGE_CLOSED)
        return;
    flush_settlements(c);
    if (c->stage > STAGE_BEGIN)
        put_end_or_close(c, PERF_END);
    else if (c->stage == STAGE_BEGIN)
        say_close(c);
    c->stage = STAGE_CLOSING;
    flush(c);
}

/* Turns the loop until all are closed or the time is over. */
static void await_closed(uint64_t patience_ms)
{
    uint64_t until = now_ns() + patience_ms * 1000000;
    while (run.closed < run.connection_count && now_ns() < until && !run.errors)
        turn();
}

static void close_connections(void)
{
    for (uint32_t i = 0; i < run.connection_count; i++)
        start_closing(&run.connections[i]);
    await_closed(END_PATIENCE_MS);
    for (uint32_t i = 0; i < run.connection_count; i++)
        if (run.connections[i].stage == STAGE_CLOSING) {
            say_close(&run.connections[i]);
            flush(&run.connections[i]);
        }
    await_closed(CLOSE_PATIENCE_MS);
    if (run.closed < run.connection_count && !run.errors)
        fail(1, "the server did not answer the close");
}

static void execute(void)
{
    run.poll = epoll_create1(0);
    run.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event event = {EPOLLIN, {.ptr = NULL}};
    epoll_ctl(run.poll, EPOLL_CTL_ADD, run.timer, &event);
    run.started_ns = now_ns();
    uint64_t housekeeping_ns = run.started_ns;
    open_connections();
    while (!run.is_stopping && !is_complete()) {
        turn();
        start_when_attached();
        uint64_t now = now_ns();
        if (now - housekeeping_ns < TICK_MS * 1000000ull)
            continue;
        housekeeping_ns = now;
        send_heartbeats();
        check_progress();
    }
    run.ended_ns = run.is_started ? run.progress_ns : now_ns();
    run.is_stopping = true;
    close_connections();
}

/* the result */

static void check_totals(void)
{
    if (sends() && run.sends_settled != run.sends_started)
        fail(run.sends_started - run.sends_settled, "%llu sends were never settled",
             (unsigned long long)(run.sends_started - run.sends_settled));
    uint64_t expected = options.mode == MODE_RECEIVE ? options.count * options.copies : 0;
    if (run.receives_done < expected)
        fail(expected - run.receives_done, "%llu messages are missing",
             (unsigned long long)(expected - run.receives_done));
    if (options.mode == MODE_BOTH && run.receives_done != run.sends_settled)
        fail(1, "%llu sent, %llu received", (unsigned long long)run.sends_settled,
             (unsigned long long)run.receives_done);
}

static void print_text(const char *name, const char *text)
{
    printf(", \"%s\": \"", name);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text >= 0x20)
            putchar(*text);
    putchar('"');
}

static void print_result(void)
{
    static const char *const modes[] = {"send", "receive", "both", "batch", "drain"};
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
        + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    double seconds = (double)(run.ended_ns - run.started_ns) / 1e9;
    uint64_t messages = receives() ? run.receives_done : run.sends_settled;
    printf("{\"mode\": \"%s\", \"messages\": %llu, \"seconds\": %.6f, \"msgs_per_s\": %.1f, "
           "\"connections\": %u, \"window\": %u, \"size\": %zu, \"batch\": %u, "
           "\"client_cpu_s\": %.3f",
           modes[options.mode], (unsigned long long)messages, seconds,
           seconds > 0 ? (double)messages / seconds : 0, options.connections, options.window,
           options.body_size, options.batch, cpu);
    print_latency("latency_us", &run.latency);
    if (options.mode == MODE_BOTH)
        print_latency("delivery_latency_us", &run.delivery_latency);
    printf(", \"duplicates\": %llu, \"overruns\": %llu, \"errors\": %llu",
           (unsigned long long)run.duplicates, (unsigned long long)run.overruns,
           (unsigned long long)run.errors);
    if (run.errors)
        print_text("first_error", run.first_error);
    puts("}");
}

int main(int argc, char **argv)
{
    parse_options(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    run.ring_size = RING_SIZE_LEAST;
    while (run.ring_size < options.window * 4)
        run.ring_size *= 2;
    run.receives_granted = calloc(options.copies, sizeof *run.receives_granted);
    make_message();
    execute();
    check_totals();
    print_result();
    return run.errors ? 1 : 0;
}
