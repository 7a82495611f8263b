/* What a run is asked to do: the command line, parsed and checked.
 *
 * It is the only reader of argv; everything else reads `options` and never writes it.
 */
#ifndef TWINBUS_BENCH_OPTIONS_H
#define TWINBUS_BENCH_OPTIONS_H

#include <getopt.h>

#include "wire.h"

enum mode { MODE_SEND, MODE_RECEIVE, MODE_BOTH, MODE_BATCH, MODE_DRAIN };
enum settle { SETTLE_CONFIRMED, SETTLE_PRESETTLED, SETTLE_DELETE, SETTLE_DEFER };

struct range { int64_t low, high; };

static struct options {
    enum mode mode;
    enum settle settle;
    const char *host, *port, *hostname, *address, *user, *password, *token, *audience,
        *property;
    bool is_tls, has_size, has_ttl, has_schedule, ignores_ids, settles_first,
        tolerates_overrun;
    size_t body_size;
    uint32_t connections, window, batch, copies;
    uint64_t count, first_id;
    double duration, rate, timeout;
    struct range ttl_ms, schedule_s;
} options = {
    .host = "127.0.0.1", .port = "5672", .hostname = "localhost", .address = "bench",
    .body_size = 256, .connections = 1, .window = 1000, .batch = 1, .copies = 1,
    .timeout = 30
};

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
    "  --copies N                      in mode receive, every message is in N places, whose\n"
    "                                  addresses are the given one with 0 to N-1 behind it;\n"
    "                                  connections are per place, and so is --count\n"
    "  --property NAME=TEXT            an application property of every message\n"
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
    OPT_SETTLES_FIRST, OPT_OVERRUN, OPT_COPIES, OPT_PROPERTY, OPT_HELP
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
    {"copies", 1, 0, OPT_COPIES}, {"property", 1, 0, OPT_PROPERTY},
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
    case OPT_COPIES: options.copies = (uint32_t)number_of(value); break;
    case OPT_PROPERTY: options.property = value; break;
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
    if (!options.copies || options.copies > 1000)
        quit_with_usage("--copies must be from 1 to 1000");
    if (options.copies > 1 && options.mode != MODE_RECEIVE)
        quit_with_usage("--copies is for mode receive");
    if (options.property && !strchr(options.property, '='))
        quit_with_usage("a property is NAME=TEXT");
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

#endif
