/* The message that is sent: made once, patched per send.
 *
 * Durable header, a numbered id of fixed width, a data body that begins with the instant
 * it should have been sent; time to live, schedule and a property when asked for.
 */
#ifndef TWINBUS_BENCH_MESSAGE_H
#define TWINBUS_BENCH_MESSAGE_H

#include "options.h"
#include "run.h"

enum { MESSAGE_ID_SIZE = 20 };

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

static void put_application_property(struct buffer *out)
{
    if (!options.property)
        return;
    const char *value = strchr(options.property, '=');
    put_descriptor(out, SECTION_APPLICATION);
    size_t map = open_compound(out);
    put_variable(out, 0xa1, options.property, (size_t)(value - options.property));
    put_string(out, value + 1);
    close_map(out, map, 1);
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
    put_application_property(out);
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

#endif
