/* A token put on $cbs before the link is attached, for a bus that wants claims. */
#ifndef TWINBUS_BENCH_TOKEN_H
#define TWINBUS_BENCH_TOKEN_H

#include "outgoing.h"

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

#endif
