/* Frames the server sends, and what each does to the connection. */
#ifndef TWINBUS_BENCH_INCOMING_H
#define TWINBUS_BENCH_INCOMING_H

#include <sys/epoll.h>

#include "receiving.h"
#include "sending.h"
#include "token.h"

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

#endif
