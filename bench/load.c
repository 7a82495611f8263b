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
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "histogram.h"
#include "wire.h"

enum {
    READ_CHUNK = 256 * 1024,
    WRITE_HIGH_WATER = 512 * 1024,  /* more is not encoded ahead of the socket */
    MAX_FRAME = 1 << 20,            /* what we accept, and the most we send */
    SESSION_WINDOW = 0x7fffffff,
    BATCH_FORMAT = (int)0x80013700u,
    MESSAGE_ID_SIZE = 20,
    IDLE_DRAIN_MS = 500,
    END_PATIENCE_MS = 1000,         /* for the answer to `end`, before `close` goes out */
    CLOSE_PATIENCE_MS = 5000,
    TICK_MS = 100
};
#define MAX_TRACKED_ID (1ull << 32)

enum mode { MODE_SEND, MODE_RECEIVE, MODE_BOTH, MODE_BATCH, MODE_DRAIN };
enum settle { SETTLE_CONFIRMED, SETTLE_PRESETTLED, SETTLE_DELETE, SETTLE_DEFER };
enum role { ROLE_SENDER, ROLE_RECEIVER };
enum stage {
    STAGE_SASL_HEADER, STAGE_SASL, STAGE_AMQP_HEADER, STAGE_OPEN, STAGE_BEGIN,
    STAGE_TOKEN, STAGE_ATTACH, STAGE_RUN, STAGE_CLOSING, STAGE_CLOSED
};
enum link { LINK_MAIN, LINK_TOKEN_OUT, LINK_TOKEN_IN, LINK_COUNT };
static const char *const link_names[LINK_COUNT] = {"load", "token-out", "token-in"};

struct range { int64_t low, high; };

static struct options {
    enum mode mode;
    enum settle settle;
    const char *host, *port, *hostname, *address, *user, *password, *token, *audience;
    bool is_tls, has_size, has_ttl, has_schedule, ignores_ids, settles_first,
        tolerates_overrun;
    size_t body_size;
    uint32_t connections, window, batch;
    uint64_t count, first_id;
    double duration, rate, timeout;
    struct range ttl_ms, schedule_s;
} options = {
    .host = "127.0.0.1", .port = "5672", .hostname = "localhost", .address = "bench",
    .body_size = 256, .connections = 1, .window = 1000, .batch = 1, .timeout = 30
};

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
    uint64_t max_message_size, next_scheduled;
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
    uint64_t sends_started, sends_settled, receives_granted, receives_done;
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

static bool sends(void) { return options.mode != MODE_RECEIVE && options.mode != MODE_DRAIN; }
static bool receives(void) { return options.mode != MODE_SEND && options.mode != MODE_BATCH; }
static bool waits_for_echo(void)
{
    return options.settle == SETTLE_CONFIRMED || options.settle == SETTLE_DEFER;
}
static uint8_t wanted_outcome(void)
{
    return options.settle == SETTLE_DEFER ? OUTCOME_MODIFIED : OUTCOME_ACCEPTED;
}

/* ---- the message: made once, patched per send ---- */

static void put_ttl(struct buffer *out)
{
    if (!options.has_ttl)
        return;
    put_null(out); /* priority */
    put_byte(out, 0x70);
    run.ttl_offset = out->size;
    put_number(out, 0, 4);
}

static void put_schedule(struct buffer *out)
{
    if (!options.has_schedule)
        return;
    put_descriptor(out, SECTION_ANNOTATIONS);
    size_t map = open_compound(out);
    put_symbol(out, "x-opt-scheduled-enqueue-time");
    put_byte(out, 0x83);
    put_number(out, 0, 8);
    close_map(out, map, 1);
    run.schedule_offset = out->size - 8;
}

static void make_message(void)
{
    struct buffer *out = &run.message;
    put_descriptor(out, SECTION_HEADER);
    size_t header = open_list(out);
    put_bool(out, true); /* durable */
    put_ttl(out);
    close_list(out, header, options.has_ttl ? 3 : 1);
    if (options.has_ttl)
        run.ttl_offset = out->size - 4;
    put_schedule(out);
    put_descriptor(out, SECTION_PROPERTIES);
    size_t properties = open_list(out);
    uint8_t id[MESSAGE_ID_SIZE];
    memset(id, '0', sizeof id);
    put_variable(out, 0xa1, id, sizeof id);
    close_list(out, properties, 1);
    run.id_offset = out->size - MESSAGE_ID_SIZE;
    put_descriptor(out, SECTION_DATA);
    uint8_t *body = malloc(options.body_size + 1);
    for (size_t i = 0; i < options.body_size; i++)
        body[i] = (uint8_t)('a' + i % 26);
    put_binary(out, body, options.body_size);
    free(body);
    run.body_offset = out->size - options.body_size;
}

static uint64_t random_number(void)
{
    run.random ^= run.random << 13;
    run.random ^= run.random >> 7;
    return run.random ^= run.random << 17;
}

static uint64_t pick(struct range range)
{
    return (uint64_t)range.low + random_number() % (uint64_t)(range.high - range.low + 1);
}

static void patch_message(uint64_t id, uint64_t intended_ns)
{
    uint8_t *message = run.message.data;
    for (int i = MESSAGE_ID_SIZE - 1; i >= 0; i--, id /= 10)
        message[run.id_offset + (size_t)i] = (uint8_t)('0' + id % 10);
    if (options.body_size >= 8)
        store_be(message + run.body_offset, intended_ns, 8);
    if (options.has_ttl)
        store_be(message + run.ttl_offset, pick(options.ttl_ms), 4);
    if (options.has_schedule) {
        uint64_t due_ms = ((uint64_t)time(NULL) + pick(options.schedule_s)) * 1000;
        store_be(message + run.schedule_offset, due_ms, 8);
    }
}

/* ---- outgoing frames ---- */

static void put_protocol_header(struct connection *c, uint8_t protocol)
{
    const uint8_t header[8] = {'A', 'M', 'Q', 'P', protocol, 1, 0, 0};
    put_bytes(&c->out, header, sizeof header);
}

static void put_sasl_init(struct connection *c)
{
    struct frame frame = open_frame(&c->out, FRAME_SASL, PERF_SASL_INIT);
    if (!options.user) {
        put_symbol(&c->out, "ANONYMOUS");
        close_fields(&frame, 1);
        close_frame(&frame);
        return;
    }
    struct buffer response = {0};
    put_byte(&response, 0);
    put_bytes(&response, options.user, strlen(options.user) + 1);
    put_bytes(&response, options.password, strlen(options.password));
    put_symbol(&c->out, "PLAIN");
    put_binary(&c->out, response.data, response.size);
    free(response.data);
    close_fields(&frame, 2);
    close_frame(&frame);
}

static void put_open(struct connection *c)
{
    char container[64];
    snprintf(container, sizeof container, "load-%d-%u", (int)getpid(), c->number);
    struct frame frame = open_frame(&c->out, FRAME_AMQP, PERF_OPEN);
    put_string(&c->out, container);
    put_string(&c->out, options.hostname);
    put_uint(&c->out, MAX_FRAME);
    close_fields(&frame, 3);
    close_frame(&frame);
}

static void put_begin(struct connection *c)
{
    struct frame frame = open_frame(&c->out, FRAME_AMQP, PERF_BEGIN);
    put_null(&c->out);
    put_uint(&c->out, 0);
    put_uint(&c->out, SESSION_WINDOW);
    put_uint(&c->out, SESSION_WINDOW);
    close_fields(&frame, 4);
    close_frame(&frame);
}

static void put_terminus(struct buffer *out, uint8_t code, const char *address)
{
    put_descriptor(out, code);
    size_t list = open_list(out);
    put_string(out, address);
    put_uint(out, 2); /* durable: RabbitMQ declares the queue as the terminus asks */
    close_list(out, list, 2);
}

static void put_attach(struct connection *c, enum link link, const char *address,
                       bool is_receiver, uint8_t sender_mode, uint8_t receiver_mode)
{
    char name[64];
    snprintf(name, sizeof name, "%s-%d-%u", link_names[link], (int)getpid(), c->number);
    struct frame frame = open_frame(&c->out, FRAME_AMQP, PERF_ATTACH);
    put_string(&c->out, name);
    put_uint(&c->out, link);
    put_bool(&c->out, is_receiver);
    put_ubyte(&c->out, sender_mode);
    put_ubyte(&c->out, receiver_mode);
    put_terminus(&c->out, 0x28, address);
    put_terminus(&c->out, 0x29, address);
    put_null(&c->out);
    put_null(&c->out);
    put_uint(&c->out, 0);
    close_fields(&frame, 10);
    close_frame(&frame);
}

static void put_main_attach(struct connection *c)
{
    c->stage = STAGE_ATTACH;
    if (c->role == ROLE_SENDER)
        put_attach(c, LINK_MAIN, options.address, false, 0, 0);
    else
        put_attach(c, LINK_MAIN, options.address, true, options.settle == SETTLE_DELETE,
                   waits_for_echo() && !options.settles_first);
}

static void put_flow(struct connection *c, enum link link, uint32_t count, uint32_t credit)
{
    struct frame frame = open_frame(&c->out, FRAME_AMQP, PERF_FLOW);
    put_uint(&c->out, c->next_incoming_id);
    put_uint(&c->out, SESSION_WINDOW);
    put_uint(&c->out, c->next_outgoing_id);
    put_uint(&c->out, SESSION_WINDOW);
    put_uint(&c->out, link);
    put_uint(&c->out, count);
    put_uint(&c->out, credit);
    close_fields(&frame, 7);
    close_frame(&frame);
}

static void put_outcome(struct buffer *out, uint8_t outcome)
{
    put_descriptor(out, outcome);
    if (outcome != OUTCOME_MODIFIED) {
        put_byte(out, 0x45);
        return;
    }
    size_t list = open_list(out);
    put_bool(out, false); /* delivery-failed */
    put_bool(out, true);  /* undeliverable-here: Service Bus defers */
    close_list(out, list, 2);
}

static void put_disposition(struct connection *c, uint32_t first, uint32_t last)
{
    struct frame frame = open_frame(&c->out, FRAME_AMQP, PERF_DISPOSITION);
    put_bool(&c->out, true);
    put_uint(&c->out, first);
    put_uint(&c->out, last);
    put_bool(&c->out, !waits_for_echo());
    put_outcome(&c->out, wanted_outcome());
    close_fields(&frame, 5);
    close_frame(&frame);
}

static void put_end_or_close(struct connection *c, uint8_t performative)
{
    struct frame frame = open_frame(&c->out, FRAME_AMQP, performative);
    close_fields(&frame, 0);
    close_frame(&frame);
}

static size_t open_transfer(struct connection *c, struct frame *frame, enum link link,
                            uint32_t format, bool is_settled)
{
    uint8_t tag[4];
    store_be(tag, c->next_delivery_id, 4);
    *frame = open_frame(&c->out, FRAME_AMQP, PERF_TRANSFER);
    put_uint(&c->out, link);
    put_uint(&c->out, c->next_delivery_id);
    put_binary(&c->out, tag, sizeof tag);
    put_uint(&c->out, format);
    put_bool(&c->out, is_settled);
    return c->out.size;
}

/* One delivery as the frames it needs: the peer's limit decides how many. */
static void put_delivery(struct connection *c, enum link link, uint32_t format,
                         bool is_settled, const struct buffer *payload)
{
    enum { OVERHEAD = 64 };
    size_t room = c->peer_max_frame - OVERHEAD, sent = 0;
    do {
        size_t part = payload->size - sent < room ? payload->size - sent : room;
        struct frame frame;
        open_transfer(c, &frame, link, format, is_settled);
        put_bool(&c->out, sent + part < payload->size);
        close_fields(&frame, 6);
        put_bytes(&c->out, payload->data + sent, part);
        close_frame(&frame);
        sent += part;
        c->next_outgoing_id++;
        c->peer_window--;
    } while (sent < payload->size);
    c->next_delivery_id++;
}

static uint32_t frames_per_delivery(const struct connection *c, size_t size)
{
    return (uint32_t)(size / (c->peer_max_frame - 64) + 1);
}

/* ---- $cbs: a token before the link, for a bus that wants claims ---- */

static void put_token_links(struct connection *c)
{
    c->stage = STAGE_TOKEN;
    put_attach(c, LINK_TOKEN_OUT, "$cbs", false, 0, 0);
    put_attach(c, LINK_TOKEN_IN, "$cbs", true, 1, 0);
    put_flow(c, LINK_TOKEN_IN, 0, 10);
}

static void put_property(struct buffer *out, const char *name, const char *value)
{
    put_string(out, name);
    put_string(out, value);
}

static void put_token(struct connection *c)
{
    struct buffer message = {0};
    put_descriptor(&message, SECTION_PROPERTIES);
    size_t properties = open_list(&message);
    put_string(&message, "put-token-1");
    close_list(&message, properties, 1);
    put_descriptor(&message, SECTION_APPLICATION);
    size_t map = open_compound(&message);
    put_property(&message, "operation", "put-token");
    put_property(&message, "type", "servicebus.windows.net:sastoken");
    put_property(&message, "name", options.audience);
    close_map(&message, map, 3);
    put_descriptor(&message, SECTION_VALUE);
    put_string(&message, options.token);
    put_delivery(c, LINK_TOKEN_OUT, 0, true, &message);
    free(message.data);
}

static int64_t token_status(const uint8_t *payload, size_t size)
{
    struct value section, map, key, value;
    const uint8_t *at = payload, *end = payload + size;
    while ((at = read_value(at, end, &section))) {
        if (section.number != SECTION_APPLICATION)
            continue;
        if (!read_value(section.bytes, section.bytes + section.size, &map))
            return -1;
        const uint8_t *member = map.bytes, *stop = map.bytes + map.size;
        while ((member = read_value(member, stop, &key))
               && (member = read_value(member, stop, &value)))
            if (text_equals(&key, "status-code"))
                return (int64_t)value.number;
    }
    return -1;
}

static void on_token_reply(struct connection *c, const uint8_t *payload, size_t size)
{
    int64_t status = token_status(payload, size);
    if (status == 200 || status == 202)
        put_main_attach(c);
    else
        give_up("put-token answered %lld", (long long)status);
}

/* ---- sending ---- */

static bool may_start_send(void)
{
    if (!run.is_started || run.is_stopping)
        return false;
    if (options.count)
        return run.sends_started < options.count;
    return now_ns() < run.deadline_ns;
}

static uint32_t batch_size(void)
{
    uint64_t left = options.count ? options.count - run.sends_started : options.batch;
    return (uint32_t)(left < options.batch ? left : options.batch);
}

/* The Service Bus batch envelope: every message whole, in a data section of its own. */
static void make_envelope(struct buffer *envelope, uint32_t size, uint64_t intended_ns)
{
    envelope->size = 0;
    for (uint32_t i = 0; i < size; i++) {
        patch_message(options.first_id + run.sends_started + i, intended_ns);
        put_descriptor(envelope, SECTION_DATA);
        put_binary(envelope, run.message.data, run.message.size);
    }
}

static void start_send(struct connection *c, uint64_t intended_ns)
{
    static struct buffer envelope;
    struct slot *slot = &c->ring[c->next_delivery_id & (run.ring_size - 1)];
    uint32_t size = batch_size();
    *slot = (struct slot){intended_ns, c->next_delivery_id, true};
    if (options.mode == MODE_BATCH) {
        make_envelope(&envelope, size, intended_ns);
        put_delivery(c, LINK_MAIN, (uint32_t)BATCH_FORMAT, false, &envelope);
    } else {
        patch_message(options.first_id + run.sends_started, intended_ns);
        put_delivery(c, LINK_MAIN, 0, false, &run.message);
    }
    run.sends_started += size;
    c->in_flight++;
    c->credit--;
    c->delivery_count++;
}

static bool has_room(const struct connection *c)
{
    size_t size = run.message.size * (options.mode == MODE_BATCH ? options.batch : 1);
    return c->in_flight < options.window && c->credit > 0
        && c->peer_window >= frames_per_delivery(c, size + options.batch * 8ul)
        && c->out.size - c->out_start < WRITE_HIGH_WATER
        && !c->ring[c->next_delivery_id & (run.ring_size - 1)].is_busy;
}

static uint64_t scheduled_ns(uint64_t index)
{
    return run.started_ns + (uint64_t)((double)index / options.rate * 1e9);
}

static void pump_sender(struct connection *c)
{
    uint64_t now = now_ns();
    while (has_room(c) && may_start_send()) {
        if (options.rate > 0) {
            uint64_t intended = scheduled_ns(c->next_scheduled);
            if (intended > now)
                return;
            start_send(c, intended);
            c->next_scheduled += options.connections;
        } else {
            start_send(c, now);
        }
    }
}

/* Wakes the loop when the earliest message of a connection with room is due. */
static void arm_rate_timer(void)
{
    uint64_t earliest = UINT64_MAX;
    if (options.rate <= 0 || !may_start_send())
        return;
    for (uint32_t i = 0; i < run.connection_count; i++) {
        struct connection *c = &run.connections[i];
        if (c->role == ROLE_SENDER && has_room(c) && c->next_scheduled < earliest)
            earliest = c->next_scheduled;
    }
    if (earliest == UINT64_MAX)
        return;
    uint64_t at = scheduled_ns(earliest);
    struct itimerspec when = {.it_value = {(time_t)(at / 1000000000), (long)(at % 1000000000)}};
    timerfd_settime(run.timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void on_send_settled(struct connection *c, struct slot *slot, uint64_t now,
                            uint32_t messages)
{
    slot->is_busy = false;
    c->in_flight--;
    run.sends_settled += messages;
    record(&run.latency, now > slot->since_ns ? now - slot->since_ns : 0);
}

/* ---- receiving ---- */

/* Marks a message id as seen; false when it had been seen before. */
static bool mark_seen(uint64_t id)
{
    size_t byte = id / 8;
    if (byte >= run.seen.size) {
        size_t grown = byte + 65536;
        reserve(&run.seen, grown - run.seen.size);
        memset(run.seen.data + run.seen.size, 0, grown - run.seen.size);
        run.seen.size = grown;
    }
    uint8_t bit = (uint8_t)(1u << id % 8);
    bool is_new = !(run.seen.data[byte] & bit);
    run.seen.data[byte] |= bit;
    return is_new;
}

static void check_id(const struct value *properties)
{
    struct value fields[MAX_FIELDS];
    uint64_t id = 0;
    if (!read_list(properties->bytes, properties->size, fields)
        || fields[0].size != MESSAGE_ID_SIZE) {
        fail(1, "a message without the id it was sent with");
        return;
    }
    for (size_t i = 0; i < MESSAGE_ID_SIZE; i++)
        id = id * 10 + (uint64_t)(fields[0].bytes[i] - '0');
    bool is_expected = id >= options.first_id && id < MAX_TRACKED_ID
        && (!options.count || id < options.first_id + options.count);
    if (!is_expected)
        fail(1, "message id %llu is not one of this run", (unsigned long long)id);
    else if (!mark_seen(id)) {
        run.duplicates++;
        fail(1, "message %llu was delivered twice", (unsigned long long)id);
    }
}

static void check_body(const struct value *data, uint64_t now)
{
    struct value body;
    if (!read_value(data->bytes, data->bytes + data->size, &body)) {
        fail(1, "a message with a malformed body");
        return;
    }
    if (options.has_size && body.size != options.body_size)
        fail(1, "a body of %zu bytes, not %zu", body.size, options.body_size);
    if (options.mode == MODE_BOTH && body.size >= 8) {
        uint64_t sent_ns = load_be(body.bytes, 8);
        record(&run.delivery_latency, now > sent_ns ? now - sent_ns : 0);
    }
}

static void check_message(const uint8_t *payload, size_t size, uint64_t now)
{
    struct value section;
    const uint8_t *at = payload, *end = payload + size;
    bool has_properties = options.ignores_ids, has_body = false;
    while (at < end) {
        if (!(at = read_value(at, end, &section)))
            break;
        if (section.number == SECTION_PROPERTIES && !options.ignores_ids) {
            has_properties = true;
            check_id(&section);
        } else if (section.number == SECTION_DATA) {
            has_body = true;
            check_body(&section, now);
        }
    }
    if (!at || !has_body || !has_properties)
        fail(1, "a delivered message is malformed or lacks properties or body");
}

static uint64_t grant_limit(void)
{
    if (run.is_stopping || (!options.count && options.mode == MODE_RECEIVE
                            && now_ns() >= run.deadline_ns))
        return 0;
    return options.count && options.mode != MODE_DRAIN
        ? (options.count > run.receives_granted ? options.count - run.receives_granted : 0)
        : UINT64_MAX;
}

/* Credit plus what is not settled yet never exceeds the window. */
static void grant_credit(struct connection *c)
{
    uint32_t taken = c->credit + c->in_flight;
    uint64_t limit = grant_limit(), grant = options.window - taken;
    if (!run.is_started || taken >= options.window || limit == 0)
        return;
    bool is_worth_a_frame = grant * 4 >= options.window || grant > limit;
    if (!is_worth_a_frame)
        return;
    if (grant > limit)
        grant = limit;
    uint64_t now = now_ns();
    for (uint64_t i = 0; i < grant; i++)
        c->granted_ns[c->granted_count++ & (run.ring_size - 1)] = now;
    c->credit += (uint32_t)grant;
    run.receives_granted += grant;
    put_flow(c, LINK_MAIN, c->delivery_count, c->credit);
}

static void flush_settlements(struct connection *c)
{
    if (c->range_size)
        put_disposition(c, c->range_first, c->range_first + c->range_size - 1);
    c->range_size = 0;
}

static void settle_later(struct connection *c, uint32_t id)
{
    if (c->range_size && id != c->range_first + c->range_size)
        flush_settlements(c);
    if (!c->range_size)
        c->range_first = id;
    c->range_size++;
}

static void on_receive_done(uint64_t since_ns, uint64_t now)
{
    run.receives_done++;
    if (options.mode != MODE_BOTH) /* there the delivery latency says more */
        record(&run.latency, now - since_ns);
}

/* A delivery nobody gave credit for: an error, or counted and paid after the fact. */
static bool accept_overrun(struct connection *c, uint64_t now)
{
    if (!options.tolerates_overrun) {
        give_up("a delivery without credit");
        return false;
    }
    run.overruns++;
    run.receives_granted++;
    c->granted_ns[c->granted_count++ & (run.ring_size - 1)] = now;
    c->credit++;
    return true;
}

static void on_message(struct connection *c, const uint8_t *payload, size_t size)
{
    uint64_t now = now_ns();
    if (c->credit == 0 && !accept_overrun(c, now))
        return;
    uint64_t since = c->granted_ns[c->delivery_count++ & (run.ring_size - 1)];
    c->credit--;
    if (run.is_stopping)
        return; /* the close gives it back */
    check_message(payload, size, now);
    if (c->is_current_settled != (options.settle == SETTLE_DELETE)) {
        give_up("deliveries are %ssettled", c->is_current_settled ? "" : "not ");
        return;
    }
    run.progress_ns = now;
    if (options.settle != SETTLE_DELETE)
        settle_later(c, c->current_delivery_id);
    if (!waits_for_echo()) {
        on_receive_done(since, now);
        return;
    }
    struct slot *slot = &c->ring[c->current_delivery_id & (run.ring_size - 1)];
    *slot = (struct slot){since, c->current_delivery_id, true};
    c->in_flight++;
}

/* ---- incoming frames ---- */

static enum link link_of(const struct connection *c, uint64_t remote_handle)
{
    for (int link = 0; link < LINK_COUNT; link++)
        if (c->is_attached[link] && c->remote_handle[link] == remote_handle)
            return (enum link)link;
    return LINK_COUNT;
}

static void on_sasl_outcome(struct connection *c, const struct value *fields)
{
    if (fields[0].number != 0) {
        give_up("SASL was refused with code %u", (unsigned)fields[0].number);
        return;
    }
    c->stage = STAGE_AMQP_HEADER;
    put_protocol_header(c, 0);
    put_open(c);
}

static void on_open(struct connection *c, const struct value *fields)
{
    uint64_t max_frame = is_null(&fields[2]) ? MAX_FRAME : fields[2].number;
    c->peer_max_frame = (uint32_t)(max_frame < MAX_FRAME ? max_frame : MAX_FRAME);
    c->heartbeat_ms = (uint32_t)fields[4].number / 2;
    c->stage = STAGE_BEGIN;
    put_begin(c);
}

static void on_begin(struct connection *c, const struct value *fields)
{
    c->next_incoming_id = (uint32_t)fields[1].number;
    c->peer_window = (uint32_t)fields[2].number;
    if (options.token)
        put_token_links(c);
    else
        put_main_attach(c);
}

static enum link link_named(const struct value *name)
{
    for (int link = 0; link < LINK_COUNT; link++) {
        size_t size = strlen(link_names[link]);
        if (name->size > size && !memcmp(name->bytes, link_names[link], size))
            return (enum link)link;
    }
    return LINK_COUNT;
}

static void on_main_attached(struct connection *c, const struct value *fields)
{
    size_t envelope = (run.message.size + 8) * options.batch;
    uint64_t limit = fields[10].number;
    if (c->role == ROLE_SENDER && limit && envelope > limit) {
        give_up("the server takes %llu bytes at most", (unsigned long long)limit);
        return;
    }
    if (c->role == ROLE_RECEIVER)
        c->delivery_count = (uint32_t)fields[9].number;
    c->granted_count = c->delivery_count;
    c->stage = STAGE_RUN;
    run.running++;
}

static void on_attach(struct connection *c, const struct value *fields)
{
    enum link link = link_named(&fields[0]);
    if (link == LINK_COUNT) {
        give_up("the server attached a link nobody asked for");
        return;
    }
    bool is_sender = link == LINK_TOKEN_OUT || (link == LINK_MAIN && c->role == ROLE_SENDER);
    if (is_null(&fields[is_sender ? 6 : 5]))
        return; /* a refusal: the detach that follows says why */
    c->is_attached[link] = true;
    c->remote_handle[link] = (uint32_t)fields[1].number;
    if (link == LINK_MAIN)
        on_main_attached(c, fields);
}

static void on_sender_credit(struct connection *c, enum link link, const struct value *fields)
{
    uint32_t count = (uint32_t)fields[5].number, credit = (uint32_t)fields[6].number;
    if (link == LINK_MAIN && c->role == ROLE_SENDER) {
        int32_t left = (int32_t)(count + credit - c->delivery_count);
        c->credit = left > 0 ? (uint32_t)left : 0;
    } else if (link == LINK_TOKEN_OUT && credit && !c->token_credit) {
        c->token_credit = credit;
        put_token(c);
    }
}

static void on_flow(struct connection *c, const struct value *fields)
{
    int32_t window = (int32_t)((uint32_t)fields[0].number + (uint32_t)fields[1].number
                               - c->next_outgoing_id);
    c->peer_window = window > 0 ? (uint32_t)window : 0;
    enum link link = is_null(&fields[4]) ? LINK_COUNT : link_of(c, fields[4].number);
    if (link != LINK_COUNT)
        on_sender_credit(c, link, fields);
    if (fields[9].number && link != LINK_COUNT)
        put_flow(c, link, c->delivery_count, c->role == ROLE_RECEIVER ? c->credit : 0);
}

static void on_transfer(struct connection *c, const struct value *fields,
                        const uint8_t *payload, size_t size)
{
    enum link link = link_of(c, fields[0].number);
    c->next_incoming_id++;
    if (!is_null(&fields[1]))
        c->current_delivery_id = (uint32_t)fields[1].number;
    if (!is_null(&fields[4]))
        c->is_current_settled = fields[4].number;
    else if (!c->partial.size)
        c->is_current_settled = false;
    bool has_more = fields[5].number;
    if (has_more || c->partial.size) {
        put_bytes(&c->partial, payload, size);
        payload = c->partial.data;
        size = c->partial.size;
    }
    if (has_more)
        return;
    if (link == LINK_TOKEN_IN)
        on_token_reply(c, payload, size);
    else if (link == LINK_MAIN && c->role == ROLE_RECEIVER)
        on_message(c, payload, size);
    else
        give_up("a transfer on a link that does not receive");
    c->partial.size = 0;
}

static void describe_state(const struct value *state, char *text, size_t room)
{
    struct value fields[MAX_FIELDS], error[MAX_FIELDS];
    snprintf(text, room, "outcome 0x%02x", (unsigned)state->number);
    if (state->code == CODE_DESCRIBED && read_list(state->bytes, state->size, fields)
        && fields[0].code == CODE_DESCRIBED
        && read_list(fields[0].bytes, fields[0].size, error))
        snprintf(text, room, "outcome 0x%02x: %.*s: %.*s", (unsigned)state->number,
                 (int)error[0].size, (const char *)error[0].bytes, (int)error[1].size,
                 (const char *)error[1].bytes);
}

static uint32_t messages_of_delivery(void)
{
    if (options.mode != MODE_BATCH)
        return 1;
    /* Only the last envelope of a counted run may be short, and it settles last. */
    uint64_t left = run.sends_started - run.sends_settled;
    return (uint32_t)(left < options.batch ? left : options.batch);
}

static void on_delivery_settled(struct connection *c, uint32_t id, bool is_wanted, uint64_t now)
{
    struct slot *slot = &c->ring[id & (run.ring_size - 1)];
    if (!slot->is_busy || slot->id != id) {
        if (options.token && id == 0)
            return; /* the token's own transfer */
        fail(1, "delivery %u was settled twice or never existed", id);
        return;
    }
    if (!is_wanted) {
        slot->is_busy = false;
        c->in_flight--;
        return;
    }
    run.progress_ns = now;
    if (c->role == ROLE_SENDER) {
        on_send_settled(c, slot, now, messages_of_delivery());
        return;
    }
    slot->is_busy = false;
    c->in_flight--;
    on_receive_done(slot->since_ns, now);
}

static void on_disposition(struct connection *c, const struct value *fields)
{
    uint32_t first = (uint32_t)fields[1].number;
    uint32_t last = is_null(&fields[2]) ? first : (uint32_t)fields[2].number;
    bool is_ours = (c->role == ROLE_SENDER) == (bool)fields[0].number;
    if (!is_ours || !fields[3].number)
        return; /* a receiver that settles second says so again */
    if (last - first >= run.ring_size) {
        give_up("a disposition of %u deliveries", last - first + 1);
        return;
    }
    uint8_t wanted = c->role == ROLE_SENDER ? OUTCOME_ACCEPTED : wanted_outcome();
    bool is_wanted = fields[4].code == CODE_DESCRIBED && fields[4].number == wanted;
    if (!is_wanted) {
        char text[256];
        describe_state(&fields[4], text, sizeof text);
        fail(last - first + 1, "deliveries %u..%u got %s", first, last, text);
        run.is_stopping = true;
    }
    uint64_t now = now_ns();
    for (uint32_t id = first; id != last + 1; id++)
        on_delivery_settled(c, id, is_wanted, now);
}

static void say_close(struct connection *c)
{
    if (!c->is_close_sent)
        put_end_or_close(c, PERF_CLOSE);
    c->is_close_sent = true;
}

static void on_ended(struct connection *c, uint8_t code, const struct value *fields)
{
    struct value error[MAX_FIELDS];
    const struct value *field = &fields[code == PERF_DETACH ? 2 : 0];
    if (c->stage == STAGE_CLOSING) {
        if (code == PERF_END)
            say_close(c);
        return;
    }
    if (field->code == CODE_DESCRIBED && read_list(field->bytes, field->size, error))
        give_up("the server ended it: %.*s: %.*s", (int)error[0].size,
                (const char *)error[0].bytes, (int)error[1].size,
                (const char *)error[1].bytes);
    else
        give_up("the server ended the link or connection");
}

static void disconnect(struct connection *c)
{
    if (c->stage == STAGE_CLOSED)
        return;
    c->stage = STAGE_CLOSED;
    run.closed++;
    epoll_ctl(run.poll, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
}

static void on_frame(struct connection *c, uint8_t code, const struct value *fields,
                     const uint8_t *payload, size_t size)
{
    switch (code) {
    case PERF_SASL_MECHANISMS: put_sasl_init(c); break;
    case PERF_SASL_OUTCOME: on_sasl_outcome(c, fields); break;
    case PERF_OPEN: on_open(c, fields); break;
    case PERF_BEGIN: on_begin(c, fields); break;
    case PERF_ATTACH: on_attach(c, fields); break;
    case PERF_FLOW: on_flow(c, fields); break;
    case PERF_TRANSFER: on_transfer(c, fields, payload, size); break;
    case PERF_DISPOSITION: on_disposition(c, fields); break;
    case PERF_CLOSE:
        on_ended(c, code, fields);
        disconnect(c);
        break;
    case PERF_DETACH:
    case PERF_END: on_ended(c, code, fields); break;
    default: give_up("a frame of unknown type 0x%02x", code);
    }
}

static void parse_frame(struct connection *c, const uint8_t *frame, size_t size)
{
    struct value performative, fields[MAX_FIELDS];
    const uint8_t *end = frame + size, *body = frame + frame[4] * 4u;
    if (body >= end)
        return; /* a heartbeat */
    const uint8_t *payload = read_value(body, end, &performative);
    if (!payload || performative.code != CODE_DESCRIBED
        || !read_list(performative.bytes, performative.size, fields)) {
        give_up("a malformed frame");
        return;
    }
    on_frame(c, (uint8_t)performative.number, fields, payload, (size_t)(end - payload));
}

/* Handles what is complete at `at`; returns the bytes used, 0 when more is needed. */
static size_t parse_next(struct connection *c, const uint8_t *at, size_t size)
{
    if (size < FRAME_HEADER_SIZE)
        return 0;
    if (c->stage == STAGE_SASL_HEADER || c->stage == STAGE_AMQP_HEADER) {
        if (memcmp(at, "AMQP", 4))
            give_up("the server does not speak AMQP 1.0");
        c->stage = c->stage == STAGE_SASL_HEADER ? STAGE_SASL : STAGE_OPEN;
        return 8;
    }
    size_t frame_size = load_be(at, 4);
    if (frame_size < FRAME_HEADER_SIZE || frame_size > MAX_FRAME) {
        give_up("a frame of %zu bytes", frame_size);
        return 0;
    }
    if (size < frame_size)
        return 0;
    parse_frame(c, at, frame_size);
    return frame_size;
}

static void parse_input(struct connection *c)
{
    size_t used, start = 0;
    while (c->stage != STAGE_CLOSED
           && (used = parse_next(c, c->in.data + start, c->in.size - start)))
        start += used;
    memmove(c->in.data, c->in.data + start, c->in.size - start);
    c->in.size -= start;
}

/* ---- sockets ---- */

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

/* ---- the run ---- */

static void open_connections(void)
{
    uint32_t senders = sends() ? options.connections : 0;
    uint32_t receivers = receives() ? options.connections : 0;
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
        return options.count ? run.receives_done >= options.count
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

/* ---- the result ---- */

static void check_totals(void)
{
    if (sends() && run.sends_settled != run.sends_started)
        fail(run.sends_started - run.sends_settled, "%llu sends were never settled",
             (unsigned long long)(run.sends_started - run.sends_settled));
    if (options.mode == MODE_RECEIVE && options.count && run.receives_done < options.count)
        fail(options.count - run.receives_done, "%llu messages are missing",
             (unsigned long long)(options.count - run.receives_done));
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

/* ---- the command line ---- */

static const char usage_text[] =
    "load MODE [options]   MODE: send | receive | both | batch | drain\n"
    "  --host H --port P --hostname NAME --tls --address NAME\n"
    "  --user U --password P           SASL PLAIN (ANONYMOUS without)\n"
    "  --sas-token T --audience A      put this token on $cbs before attaching\n"
    "  --size BYTES                    body size (256); checked on receive when given\n"
    "  --connections C                 (1); in mode both, C senders and C receivers\n"
    "  --window W                      unsettled deliveries or credit per connection (1000)\n"
    "  --count N | --duration SECONDS\n"
    "  --rate R                        messages per second, all connections together\n"
    "  --settle confirmed | presettled | receive-and-delete | defer\n"
    "  --settles-first                 ask for rcv-settle-mode first even where an echo is\n"
    "                                  awaited (RabbitMQ knows no other, and echoes)\n"
    "  --tolerate-overrun              count deliveries beyond the credit instead of failing\n"
    "  --batch K                       messages per envelope in mode batch\n"
    "  --first-id N                    number of the first message id (0)\n"
    "  --ignore-ids                    do not check ids of received messages\n"
    "  --ttl-ms LOW[:HIGH]             time to live, picked at random in the range\n"
    "  --schedule-s LOW[:HIGH]         scheduled that many seconds from now\n"
    "  --timeout SECONDS               without progress the run fails (30)\n";

static void quit_with_usage(const char *problem)
{
    fprintf(stderr, "load: %s\n%s", problem, usage_text);
    exit(2);
}

static int index_of(const char *text, const char *const *choices, const char *problem)
{
    for (int i = 0; choices[i]; i++)
        if (!strcmp(text, choices[i]))
            return i;
    quit_with_usage(problem);
    return -1;
}

static struct range range_of(const char *text)
{
    char *rest;
    struct range range = {strtoll(text, &rest, 10), 0};
    range.high = *rest == ':' ? strtoll(rest + 1, &rest, 10) : range.low;
    if (*rest || range.low < 0 || range.high < range.low)
        quit_with_usage("a range is LOW or LOW:HIGH");
    return range;
}

static double number_of(const char *text)
{
    char *rest;
    double number = strtod(text, &rest);
    if (rest == text || *rest || number < 0)
        quit_with_usage("a number was expected");
    return number;
}

enum option_code {
    OPT_HOST, OPT_PORT, OPT_HOSTNAME, OPT_TLS, OPT_ADDRESS, OPT_USER, OPT_PASSWORD, OPT_TOKEN,
    OPT_AUDIENCE, OPT_SIZE, OPT_CONNECTIONS, OPT_WINDOW, OPT_COUNT, OPT_DURATION, OPT_RATE,
    OPT_SETTLE, OPT_BATCH, OPT_FIRST_ID, OPT_IGNORE_IDS, OPT_TTL, OPT_SCHEDULE, OPT_TIMEOUT,
    OPT_SETTLES_FIRST, OPT_OVERRUN, OPT_HELP
};
static const struct option long_options[] = {
    {"host", 1, 0, OPT_HOST}, {"port", 1, 0, OPT_PORT}, {"hostname", 1, 0, OPT_HOSTNAME},
    {"tls", 0, 0, OPT_TLS}, {"address", 1, 0, OPT_ADDRESS}, {"user", 1, 0, OPT_USER},
    {"password", 1, 0, OPT_PASSWORD}, {"sas-token", 1, 0, OPT_TOKEN},
    {"audience", 1, 0, OPT_AUDIENCE}, {"size", 1, 0, OPT_SIZE},
    {"connections", 1, 0, OPT_CONNECTIONS}, {"window", 1, 0, OPT_WINDOW},
    {"count", 1, 0, OPT_COUNT}, {"duration", 1, 0, OPT_DURATION}, {"rate", 1, 0, OPT_RATE},
    {"settle", 1, 0, OPT_SETTLE}, {"batch", 1, 0, OPT_BATCH}, {"first-id", 1, 0, OPT_FIRST_ID},
    {"ignore-ids", 0, 0, OPT_IGNORE_IDS}, {"ttl-ms", 1, 0, OPT_TTL},
    {"schedule-s", 1, 0, OPT_SCHEDULE}, {"timeout", 1, 0, OPT_TIMEOUT},
    {"settles-first", 0, 0, OPT_SETTLES_FIRST}, {"tolerate-overrun", 0, 0, OPT_OVERRUN},
    {"help", 0, 0, OPT_HELP}, {0, 0, 0, 0}
};

static void take_place(int code, const char *value)
{
    switch (code) {
    case OPT_HOST: options.host = value; break;
    case OPT_PORT: options.port = value; break;
    case OPT_HOSTNAME: options.hostname = value; break;
    case OPT_TLS: options.is_tls = true; break;
    case OPT_ADDRESS: options.address = value; break;
    case OPT_USER: options.user = value; break;
    case OPT_PASSWORD: options.password = value; break;
    case OPT_TOKEN: options.token = value; break;
    case OPT_AUDIENCE: options.audience = value; break;
    default: quit_with_usage("unknown option");
    }
}

static void take_load(int code, const char *value)
{
    static const char *const settles[] = {"confirmed", "presettled", "receive-and-delete",
                                          "defer", NULL};
    switch (code) {
    case OPT_SIZE:
        options.body_size = (size_t)number_of(value);
        options.has_size = true;
        break;
    case OPT_CONNECTIONS: options.connections = (uint32_t)number_of(value); break;
    case OPT_WINDOW: options.window = (uint32_t)number_of(value); break;
    case OPT_COUNT: options.count = (uint64_t)number_of(value); break;
    case OPT_DURATION: options.duration = number_of(value); break;
    case OPT_RATE: options.rate = number_of(value); break;
    case OPT_SETTLE:
        options.settle = (enum settle)index_of(value, settles, "unknown --settle");
        break;
    case OPT_BATCH: options.batch = (uint32_t)number_of(value); break;
    case OPT_FIRST_ID: options.first_id = (uint64_t)number_of(value); break;
    case OPT_IGNORE_IDS: options.ignores_ids = true; break;
    case OPT_SETTLES_FIRST: options.settles_first = true; break;
    case OPT_OVERRUN: options.tolerates_overrun = true; break;
    case OPT_TTL:
        options.ttl_ms = range_of(value);
        options.has_ttl = true;
        break;
    case OPT_SCHEDULE:
        options.schedule_s = range_of(value);
        options.has_schedule = true;
        break;
    case OPT_TIMEOUT: options.timeout = number_of(value); break;
    default: take_place(code, value);
    }
}

static void check_options(void)
{
    if (options.mode == MODE_DRAIN) {
        options.settle = SETTLE_DELETE;
        options.ignores_ids = true;
    }
    if (options.mode != MODE_DRAIN && !options.count == !(options.duration > 0))
        quit_with_usage("give --count or --duration, and not both");
    if (!options.connections || !options.window || !options.batch || options.window > 1u << 24)
        quit_with_usage("--connections, --window and --batch must be at least 1");
    if ((options.user && !options.password) || (options.token && !options.audience))
        quit_with_usage("--user needs --password, --sas-token needs --audience");
    if (options.batch > 1 && options.mode != MODE_BATCH)
        quit_with_usage("--batch is for mode batch");
    if (options.mode == MODE_BOTH && options.settle == SETTLE_DEFER)
        quit_with_usage("--settle defer is for mode receive");
}

static void parse_options(int argc, char **argv)
{
    static const char *const modes[] = {"send", "receive", "both", "batch", "drain", NULL};
    int code;
    while ((code = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (code == OPT_HELP) {
            fputs(usage_text, stdout);
            exit(0);
        }
        take_load(code, optarg);
    }
    if (optind + 1 != argc)
        quit_with_usage("name one mode");
    options.mode = (enum mode)index_of(argv[optind], modes, "unknown mode");
    check_options();
}

int main(int argc, char **argv)
{
    parse_options(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    run.ring_size = 4096;
    while (run.ring_size < options.window * 4)
        run.ring_size *= 2;
    make_message();
    execute();
    check_totals();
    print_result();
    return run.errors ? 1 : 0;
}
