/* AMQP 1.0 on the wire: just enough encoding and decoding for a load client.
 *
 * Encoding appends to a growing buffer; a performative's list is written long and
 * shrunk to its short form when it fits, as SDKs do. Decoding never copies: a value
 * points into the received bytes, and every read is checked against their end, so a
 * malformed frame gives NULL and not a crash. Nothing here knows what a frame means.
 */
#ifndef TWINBUS_BENCH_WIRE_H
#define TWINBUS_BENCH_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum performative {
    PERF_OPEN = 0x10, PERF_BEGIN, PERF_ATTACH, PERF_FLOW, PERF_TRANSFER,
    PERF_DISPOSITION, PERF_DETACH, PERF_END, PERF_CLOSE,
    PERF_SASL_MECHANISMS = 0x40, PERF_SASL_INIT = 0x41, PERF_SASL_OUTCOME = 0x44
};
enum outcome { OUTCOME_NONE = 0, OUTCOME_ACCEPTED = 0x24, OUTCOME_MODIFIED = 0x27 };
enum section {
    SECTION_HEADER = 0x70, SECTION_ANNOTATIONS = 0x72, SECTION_PROPERTIES = 0x73,
    SECTION_APPLICATION = 0x74, SECTION_DATA = 0x75, SECTION_VALUE = 0x77
};
enum { FRAME_AMQP = 0, FRAME_SASL = 1, FRAME_HEADER_SIZE = 8, MAX_FIELDS = 16 };

/* a growing buffer */

struct buffer { uint8_t *data; size_t size, capacity; };

static void reserve(struct buffer *buffer, size_t more)
{
    size_t needed = buffer->size + more;
    if (needed <= buffer->capacity)
        return;
    size_t capacity = buffer->capacity ? buffer->capacity : 4096;
    while (capacity < needed)
        capacity *= 2;
    buffer->data = realloc(buffer->data, capacity);
    if (!buffer->data) {
        fputs("load: out of memory\n", stderr);
        exit(2);
    }
    buffer->capacity = capacity;
}

static void put_bytes(struct buffer *buffer, const void *bytes, size_t size)
{
    reserve(buffer, size);
    if (size)
        memcpy(buffer->data + buffer->size, bytes, size);
    buffer->size += size;
}

static void store_be(uint8_t *at, uint64_t number, int width)
{
    for (int i = width - 1; i >= 0; i--, number >>= 8)
        at[i] = (uint8_t)number;
}

static uint64_t load_be(const uint8_t *at, int width)
{
    uint64_t number = 0;
    for (int i = 0; i < width; i++)
        number = number << 8 | at[i];
    return number;
}

static void put_number(struct buffer *buffer, uint64_t number, int width)
{
    reserve(buffer, (size_t)width);
    store_be(buffer->data + buffer->size, number, width);
    buffer->size += (size_t)width;
}

static void put_byte(struct buffer *buffer, uint8_t byte)
{
    put_number(buffer, byte, 1);
}

/* primitive values */

static void put_null(struct buffer *b) { put_byte(b, 0x40); }
static void put_bool(struct buffer *b, bool value) { put_byte(b, value ? 0x41 : 0x42); }
static void put_ubyte(struct buffer *b, uint8_t v) { put_byte(b, 0x50); put_byte(b, v); }

static void put_uint(struct buffer *buffer, uint32_t value)
{
    if (value == 0) {
        put_byte(buffer, 0x43);
    } else if (value < 256) {
        put_byte(buffer, 0x52);
        put_byte(buffer, (uint8_t)value);
    } else {
        put_byte(buffer, 0x70);
        put_number(buffer, value, 4);
    }
}

/* code is the short form's (binary a0, string a1, symbol a3); the long one is +0x10. */
static void put_variable(struct buffer *b, uint8_t code, const void *bytes, size_t size)
{
    bool is_short = size < 256;
    put_byte(b, is_short ? code : code + 0x10);
    put_number(b, size, is_short ? 1 : 4);
    put_bytes(b, bytes, size);
}

static void put_binary(struct buffer *b, const void *bytes, size_t size)
{
    put_variable(b, 0xa0, bytes, size);
}
static void put_string(struct buffer *b, const char *s) { put_variable(b, 0xa1, s, strlen(s)); }
static void put_symbol(struct buffer *b, const char *s) { put_variable(b, 0xa3, s, strlen(s)); }

static void put_descriptor(struct buffer *buffer, uint8_t code)
{
    const uint8_t bytes[3] = {0x00, 0x53, code};
    put_bytes(buffer, bytes, sizeof bytes);
}

/* lists, maps and frames: open, put members, close */

enum { LONG_HEADER = 9, SHORT_HEADER = 3 };

static size_t open_compound(struct buffer *buffer)
{
    size_t start = buffer->size;
    reserve(buffer, LONG_HEADER);
    buffer->size += LONG_HEADER;
    return start;
}

/* code is the short form's: c0 for a list, c1 for a map. */
static void close_compound(struct buffer *b, size_t start, uint8_t code, uint32_t count)
{
    uint8_t *at = b->data + start;
    size_t body = b->size - start - LONG_HEADER;
    if (body + 1 < 256) {
        at[0] = code;
        at[1] = (uint8_t)(body + 1);
        at[2] = (uint8_t)count;
        memmove(at + SHORT_HEADER, at + LONG_HEADER, body);
        b->size -= LONG_HEADER - SHORT_HEADER;
        return;
    }
    at[0] = code + 0x10;
    store_be(at + 1, body + 4, 4);
    store_be(at + 5, count, 4);
}

static size_t open_list(struct buffer *b) { return open_compound(b); }
static void close_list(struct buffer *b, size_t start, uint32_t count)
{
    close_compound(b, start, 0xc0, count);
}
static void close_map(struct buffer *b, size_t start, uint32_t pairs)
{
    close_compound(b, start, 0xc1, pairs * 2);
}

struct frame { struct buffer *out; size_t start, list; };

static struct frame open_frame(struct buffer *out, uint8_t type, uint8_t performative)
{
    struct frame frame = {.out = out, .start = out->size};
    const uint8_t header[FRAME_HEADER_SIZE] = {0, 0, 0, 0, 2, type, 0, 0};
    put_bytes(out, header, sizeof header);
    put_descriptor(out, performative);
    frame.list = open_list(out);
    return frame;
}

static void close_fields(struct frame *frame, uint32_t count)
{
    close_list(frame->out, frame->list, count);
}

static void close_frame(struct frame *frame)
{
    store_be(frame->out->data + frame->start, frame->out->size - frame->start, 4);
}

/* decoding */

enum { CODE_DESCRIBED = 0x00, CODE_NULL = 0x40 };

/* number: the value of a number or boolean, the count of a compound, the descriptor
 * of a described value. bytes/size: contents; of a described value, what it describes. */
struct value { uint8_t code; uint64_t number; const uint8_t *bytes; size_t size; };

static const uint8_t *read_value(const uint8_t *at, const uint8_t *end, struct value *out);

static const uint8_t *read_described(const uint8_t *at, const uint8_t *end, struct value *out)
{
    struct value descriptor, inner;
    const uint8_t *start = read_value(at, end, &descriptor);
    const uint8_t *stop = start ? read_value(start, end, &inner) : NULL;
    if (!stop)
        return NULL;
    *out = (struct value){CODE_DESCRIBED, descriptor.number, start, (size_t)(stop - start)};
    return stop;
}

static const uint8_t *read_fixed(const uint8_t *at, const uint8_t *end, struct value *out)
{
    static const int widths[] = {0, 1, 2, 4, 8, 16};
    int width = widths[(out->code >> 4) - 4];
    if (end - at < width)
        return NULL;
    out->bytes = at;
    out->size = (size_t)width;
    out->number = out->code == 0x41 ? 1 : load_be(at, width < 8 ? width : 8);
    return at + width;
}

static const uint8_t *read_sized(const uint8_t *at, const uint8_t *end, struct value *out)
{
    int width = (out->code >> 4) % 2 ? 4 : 1;
    bool is_compound = out->code >= 0xc0;
    if (end - at < width)
        return NULL;
    size_t size = load_be(at, width);
    at += width;
    if ((size_t)(end - at) < size || (is_compound && size < (size_t)width))
        return NULL;
    const uint8_t *stop = at + size;
    if (is_compound) {
        out->number = load_be(at, width);
        at += width;
    }
    out->bytes = at;
    out->size = (size_t)(stop - at);
    return stop;
}

static const uint8_t *read_value(const uint8_t *at, const uint8_t *end, struct value *out)
{
    if (!at || at >= end)
        return NULL;
    *out = (struct value){.code = *at++};
    if (out->code == CODE_DESCRIBED)
        return read_described(at, end, out);
    if (out->code >= 0x40 && out->code < 0xa0)
        return read_fixed(at, end, out);
    if (out->code >= 0xa0)
        return read_sized(at, end, out);
    return NULL;
}

/* Reads up to MAX_FIELDS members of a list; absent ones are null. */
static bool read_list(const uint8_t *at, size_t size, struct value fields[MAX_FIELDS])
{
    struct value list;
    const uint8_t *end = at + size;
    for (int i = 0; i < MAX_FIELDS; i++)
        fields[i] = (struct value){.code = CODE_NULL};
    if (!read_value(at, end, &list))
        return false;
    const uint8_t *member = list.bytes, *stop = list.bytes + list.size;
    for (uint64_t i = 0; i < list.number && i < MAX_FIELDS; i++)
        if (!(member = read_value(member, stop, &fields[i])))
            return false;
    return true;
}

static bool is_null(const struct value *value) { return value->code == CODE_NULL; }

static bool text_equals(const struct value *value, const char *text)
{
    return value->bytes && value->size == strlen(text)
        && !memcmp(value->bytes, text, value->size);
}

#endif
