/* Sending: as fast as window, credit and socket allow, or at a fixed rate.
 *
 * At a fixed rate message i is due at start + i / rate, whatever became of the ones before
 * it, and that is where its latency begins.
 */
#ifndef TWINBUS_BENCH_SENDING_H
#define TWINBUS_BENCH_SENDING_H

#include <sys/timerfd.h>

#include "message.h"
#include "outgoing.h"

enum {
    WRITE_HIGH_WATER = 512 * 1024, /* more is not encoded ahead of the socket */
    BATCH_FORMAT = (int)0x80013700u
};

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

#endif
