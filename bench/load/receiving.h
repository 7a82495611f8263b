/* Receiving: credit, checking what arrives, settling it in ranges.
 *
 * Credit and deliveries that are not settled yet never exceed the window together. The
 * latency of a receive begins with the credit that asked for the message. Where messages
 * are in several places, each place has every one of them, once.
 */
#ifndef TWINBUS_BENCH_RECEIVING_H
#define TWINBUS_BENCH_RECEIVING_H

#include "message.h"
#include "outgoing.h"

#define MAX_TRACKED_ID (1ull << 32)

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

static void check_id(const struct connection *c, const struct value *properties)
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
    else if (!mark_seen(id * options.copies + place_of(c))) {
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

static void check_message(const struct connection *c, const uint8_t *payload, size_t size,
                          uint64_t now)
{
    struct value section;
    const uint8_t *at = payload, *end = payload + size;
    bool has_properties = options.ignores_ids, has_body = false;
    while (at < end) {
        if (!(at = read_value(at, end, &section)))
            break;
        if (section.number == SECTION_PROPERTIES && !options.ignores_ids) {
            has_properties = true;
            check_id(c, &section);
        } else if (section.number == SECTION_DATA) {
            has_body = true;
            check_body(&section, now);
        }
    }
    if (!at || !has_body || !has_properties)
        fail(1, "a delivered message is malformed or lacks properties or body");
}

static uint64_t grant_limit(const struct connection *c)
{
    if (run.is_stopping || (!options.count && options.mode == MODE_RECEIVE
                            && now_ns() >= run.deadline_ns))
        return 0;
    uint64_t granted = run.receives_granted[place_of(c)];
    return options.count && options.mode != MODE_DRAIN
        ? (options.count > granted ? options.count - granted : 0)
        : UINT64_MAX;
}

/* Credit plus what is not settled yet never exceeds the window. */
static void grant_credit(struct connection *c)
{
    uint32_t taken = c->credit + c->in_flight;
    uint64_t limit = grant_limit(c), grant = options.window - taken;
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
    run.receives_granted[place_of(c)] += grant;
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
    run.receives_granted[place_of(c)]++;
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
    check_message(c, payload, size, now);
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

#endif
