/* Frames the client sends. They go into the connection's output buffer and no further. */
#ifndef TWINBUS_BENCH_OUTGOING_H
#define TWINBUS_BENCH_OUTGOING_H

#include <unistd.h>

#include "options.h"
#include "run.h"

enum {
    MAX_FRAME = 1 << 20, /* what we accept, and the most we send */
    SESSION_WINDOW = 0x7fffffff
};

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

/* Which of the places that have every message this connection is for. */
static uint32_t place_of(const struct connection *c) { return c->number % options.copies; }

static void put_main_attach(struct connection *c)
{
    char place[512];
    c->stage = STAGE_ATTACH;
    if (options.copies > 1)
        snprintf(place, sizeof place, "%s%u", options.address, place_of(c));
    const char *address = options.copies > 1 ? place : options.address;
    if (c->role == ROLE_SENDER)
        put_attach(c, LINK_MAIN, address, false, 0, 0);
    else
        put_attach(c, LINK_MAIN, address, true, options.settle == SETTLE_DELETE,
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

static void open_transfer(struct connection *c, struct frame *frame, enum link link,
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

#endif
