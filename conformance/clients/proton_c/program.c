/* What every client is asked to do, as far as a generic AMQP 1.0 client has calls for
   it: what Service Bus does by requests to $management is left to its own SDKs. Rules
   are those of examples/bus.toml. */

#include <proton/codec.h>
#include <proton/delivery.h>
#include <proton/disposition.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine.h"

#define WAIT_MS 15000
#define SHORT_MS 1500
#define DEAD_LETTERS "work/$DeadLetterQueue"

static engine_t engine;

#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      static char text[400];                                               \
      snprintf(text, sizeof text, "line %d: not %s; %s", __LINE__,          \
               #condition, engine.trouble);                                \
      return text;                                                         \
    }                                                                      \
  } while (0)

static const char *body_of(pn_message_t *message) {
  static char text[64];
  pn_data_t *body = pn_message_body(message);
  pn_data_rewind(body);
  text[0] = 0;
  if (pn_data_next(body)) {
    pn_bytes_t bytes = pn_data_get_bytes(body);
    snprintf(text, sizeof text, "%.*s", (int)bytes.size, bytes.start);
  }
  return text;
}

static pn_message_t *text_message(const char *text) {
  pn_message_t *message = pn_message();
  pn_data_put_string(pn_message_body(message), pn_bytes(strlen(text), text));
  return message;
}

/* Frees the message. */
static bool post(const char *address, pn_message_t *message) {
  pn_link_t *sender = engine_sender(&engine, address);
  bool sent = sender != NULL && engine_send(&engine, sender, message);
  if (sender != NULL) engine_detach(&engine, sender);
  pn_message_free(message);
  return sent;
}

static bool post_text(const char *address, const char *text) {
  return post(address, text_message(text));
}

static bool settle(pn_delivery_t *delivery, unsigned long outcome) {
  pn_delivery_update(delivery, outcome);
  return engine_settled(&engine, delivery);
}

/* Nothing is to be received at an address. */
static bool is_empty(const char *address) {
  pn_message_t *message = pn_message();
  receiver_options_t options = {.address = address, .credit = 1};
  pn_link_t *receiver = engine_receiver(&engine, options);
  bool none = engine_attached(&engine, receiver) &&
              engine_receive(&engine, receiver, message, SHORT_MS) == NULL;
  engine_detach(&engine, receiver);
  pn_message_free(message);
  return none && engine.trouble[0] == 0;
}

static pn_link_t *work(void) {
  receiver_options_t options = {.address = "work", .credit = 1};
  return engine_receiver(&engine, options);
}

static const char *send_one(pn_message_t *got) {
  pn_message_t *message = text_message("hello");
  pn_message_set_subject(message, "s");
  pn_data_t *id = pn_message_id(message);
  pn_data_put_string(id, pn_bytes(3, "one"));
  pn_data_t *properties = pn_message_properties(message);
  pn_data_put_map(properties);
  pn_data_enter(properties);
  pn_data_put_string(properties, pn_bytes(1, "n"));
  pn_data_put_int(properties, 7);
  pn_data_exit(properties);
  CHECK(post("work", message));
  pn_link_t *receiver = work();
  pn_delivery_t *delivery = engine_receive(&engine, receiver, got, WAIT_MS);
  CHECK(delivery != NULL);
  CHECK(strcmp(body_of(got), "hello") == 0);
  CHECK(strcmp(pn_message_get_subject(got), "s") == 0);
  pn_atom_t found = pn_message_get_id(got);
  CHECK(found.type == PN_STRING && found.u.as_bytes.size == 3);
  CHECK(settle(delivery, PN_ACCEPTED));
  engine_detach(&engine, receiver);
  return NULL;
}

static const char *no_id(pn_message_t *got) {
  CHECK(post_text("work", "nameless"));
  pn_link_t *receiver = work();
  pn_delivery_t *delivery = engine_receive(&engine, receiver, got, WAIT_MS);
  CHECK(delivery != NULL);
  CHECK(pn_message_get_id(got).type == PN_STRING);
  CHECK(settle(delivery, PN_ACCEPTED));
  engine_detach(&engine, receiver);
  CHECK(is_empty("work"));
  return NULL;
}

static const char *receive_and_delete(pn_message_t *got) {
  CHECK(post_text("work", "x"));
  receiver_options_t options = {.address = "work", .credit = 1, .settled = true};
  pn_link_t *receiver = engine_receiver(&engine, options);
  CHECK(engine_receive(&engine, receiver, got, WAIT_MS) != NULL);
  engine_detach(&engine, receiver);
  CHECK(is_empty("work"));
  return NULL;
}

/* The messages are there when attach and credit come, in one write. */
static const char *prefetch(pn_message_t *got) {
  for (int number = 0; number < 3; number++) CHECK(post_text("ahead", "x"));
  receiver_options_t options = {.address = "ahead", .credit = 10};
  pn_link_t *receiver = engine_receiver(&engine, options);
  for (int number = 0; number < 3; number++) {
    pn_delivery_t *delivery = engine_receive(&engine, receiver, got, WAIT_MS);
    CHECK(delivery != NULL);
    CHECK(settle(delivery, PN_ACCEPTED));
  }
  engine_detach(&engine, receiver);
  return NULL;
}

static const char *complete(pn_message_t *got) {
  CHECK(post_text("work", "x"));
  pn_link_t *receiver = work();
  pn_delivery_t *delivery = engine_receive(&engine, receiver, got, WAIT_MS);
  CHECK(delivery != NULL);
  CHECK(settle(delivery, PN_ACCEPTED));
  CHECK(pn_link_state(receiver) & PN_REMOTE_ACTIVE);
  engine_detach(&engine, receiver);
  CHECK(is_empty("work"));
  return NULL;
}

static const char *abandon(pn_message_t *got) {
  CHECK(post_text("work", "x"));
  pn_link_t *receiver = work();
  pn_delivery_t *delivery = engine_receive(&engine, receiver, got, WAIT_MS);
  CHECK(delivery != NULL);
  CHECK(pn_message_get_delivery_count(got) == 0);
  pn_disposition_set_failed(pn_delivery_local(delivery), true);
  CHECK(settle(delivery, PN_MODIFIED));
  pn_link_flow(receiver, 1);
  delivery = engine_receive(&engine, receiver, got, WAIT_MS);
  CHECK(delivery != NULL);
  CHECK(pn_message_get_delivery_count(got) == 1);
  CHECK(settle(delivery, PN_ACCEPTED));
  engine_detach(&engine, receiver);
  return NULL;
}

static const char *dead_letter(pn_message_t *got) {
  CHECK(post_text("work", "x"));
  pn_link_t *receiver = work();
  pn_delivery_t *delivery = engine_receive(&engine, receiver, got, WAIT_MS);
  CHECK(delivery != NULL);
  CHECK(settle(delivery, PN_REJECTED));
  engine_detach(&engine, receiver);
  receiver_options_t options = {.address = DEAD_LETTERS, .credit = 1};
  receiver = engine_receiver(&engine, options);
  delivery = engine_receive(&engine, receiver, got, WAIT_MS);
  CHECK(delivery != NULL && strcmp(body_of(got), "x") == 0);
  CHECK(settle(delivery, PN_ACCEPTED));
  engine_detach(&engine, receiver);
  return NULL;
}

static long long epoch_ms(void) {
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  return at.tv_sec * 1000LL + at.tv_nsec / 1000000;
}

static const char *schedule(pn_message_t *got) {
  const char *key = "x-opt-scheduled-enqueue-time";
  pn_message_t *message = text_message("later");
  pn_message_set_ttl(message, 300000);
  pn_data_t *annotations = pn_message_annotations(message);
  pn_data_put_map(annotations);
  pn_data_enter(annotations);
  pn_data_put_symbol(annotations, pn_bytes(strlen(key), key));
  pn_data_put_timestamp(annotations, epoch_ms() + 3000);
  pn_data_exit(annotations);
  CHECK(post("work", message));
  CHECK(is_empty("work"));
  pn_link_t *receiver = work();
  pn_delivery_t *delivery = engine_receive(&engine, receiver, got, WAIT_MS);
  CHECK(delivery != NULL && strcmp(body_of(got), "later") == 0);
  CHECK(pn_message_get_ttl(got) == 300000);
  CHECK(settle(delivery, PN_ACCEPTED));
  engine_detach(&engine, receiver);
  return NULL;
}

static const char *time_to_live(pn_message_t *got) {
  pn_message_t *message = text_message("x");
  pn_timestamp_t created = epoch_ms() - 60000;
  long long long_ms = 60LL * 86400000;
  pn_message_set_creation_time(message, created);
  pn_message_set_expiry_time(message, created + long_ms);
  CHECK(post("work", message));
  pn_link_t *receiver = work();
  pn_delivery_t *delivery = engine_receive(&engine, receiver, got, WAIT_MS);
  CHECK(delivery != NULL);
  CHECK(pn_message_get_expiry_time(got) - pn_message_get_creation_time(got) ==
        long_ms);
  CHECK(settle(delivery, PN_ACCEPTED));
  engine_detach(&engine, receiver);
  return NULL;
}

static const char *session(pn_message_t *got, const char *asked, const char *sent) {
  pn_message_t *message = text_message("x");
  pn_message_set_group_id(message, sent);
  CHECK(post("sessions", message));
  receiver_options_t options = {
      .address = "sessions", .credit = 1, .session_id = asked};
  pn_link_t *receiver = engine_receiver(&engine, options);
  pn_delivery_t *delivery = engine_receive(&engine, receiver, got, WAIT_MS);
  CHECK(delivery != NULL);
  CHECK(strcmp(pn_message_get_group_id(got), sent) == 0);
  CHECK(settle(delivery, PN_ACCEPTED));
  engine_detach(&engine, receiver);
  return NULL;
}

static const char *session_named(pn_message_t *got) {
  return session(got, "named", "named");
}

static const char *session_next(pn_message_t *got) {
  return session(got, "", "next");
}

static const char *topic(pn_message_t *got) {
  CHECK(post_text("news", "x"));
  receiver_options_t options = {.address = "news/Subscriptions/all", .credit = 1};
  pn_link_t *receiver = engine_receiver(&engine, options);
  pn_delivery_t *delivery = engine_receive(&engine, receiver, got, WAIT_MS);
  CHECK(delivery != NULL && strcmp(body_of(got), "x") == 0);
  CHECK(settle(delivery, PN_ACCEPTED));
  engine_detach(&engine, receiver);
  return NULL;
}

/* The rules of examples/bus.toml: a label, or a label and an amount. */
static pn_message_t *order(const char *label, int amount) {
  pn_message_t *message = text_message(label);
  pn_message_set_subject(message, label);
  pn_data_t *properties = pn_message_properties(message);
  pn_data_put_map(properties);
  pn_data_enter(properties);
  pn_data_put_string(properties, pn_bytes(6, "amount"));
  pn_data_put_int(properties, amount);
  pn_data_exit(properties);
  return message;
}

/* Of two orders the second is selected; whether the action has marked it. */
static const char *selected(pn_message_t *got, pn_message_t *passed_over,
                            pn_message_t *wanted, bool *is_marked) {
  char label[64];
  snprintf(label, sizeof label, "%s", pn_message_get_subject(wanted));
  CHECK(post("events", passed_over));
  CHECK(post("events", wanted));
  receiver_options_t options = {.address = "events/Subscriptions/billing",
                                .credit = 1};
  pn_link_t *receiver = engine_receiver(&engine, options);
  pn_delivery_t *delivery = engine_receive(&engine, receiver, got, WAIT_MS);
  CHECK(delivery != NULL && strcmp(body_of(got), label) == 0);
  char properties[512];
  size_t size = sizeof properties;
  CHECK(pn_data_format(pn_message_properties(got), properties, &size) == 0);
  *is_marked = strstr(properties, "\"reviewed\"=false") != NULL;
  CHECK(settle(delivery, PN_ACCEPTED));
  engine_detach(&engine, receiver);
  CHECK(is_empty(options.address));
  return NULL;
}

static const char *rule_sql(pn_message_t *got) {
  bool is_marked;
  return selected(got, order("order-big", 50), order("order-big", 500), &is_marked);
}

static const char *rule_correlation(pn_message_t *got) {
  bool is_marked;
  return selected(got, order("other", 1), order("order-paid", 1), &is_marked);
}

static const char *rule_action(pn_message_t *got) {
  bool is_marked = false;
  const char *trouble =
      selected(got, order("order-big", 50), order("order-big", 500), &is_marked);
  if (trouble != NULL) return trouble;
  CHECK(is_marked);
  return NULL;
}

static const struct {
  const char *name;
  const char *(*run)(pn_message_t *);
} CASES[] = {
    {"send", send_one},
    {"no-id", no_id},
    {"receive-and-delete", receive_and_delete},
    {"prefetch", prefetch},
    {"complete", complete},
    {"abandon", abandon},
    {"dead-letter", dead_letter},
    {"schedule", schedule},
    {"time-to-live", time_to_live},
    {"session-named", session_named},
    {"session-next", session_next},
    {"topic", topic},
    {"rule-sql", rule_sql},
    {"rule-correlation", rule_correlation},
    {"rule-action", rule_action},
};

static const char *NO_CALL[] = {
    "send-batch",  "defer",         "renew",         "peek",
    "cancel",      "session-state", "session-renew", "admin-queue",
    "admin-topic", "admin-subscription", "admin-rule",
};

static void tell(const char *name, const char *ok, const char *text) {
  printf("{\"case\": \"%s\", \"ok\": %s, \"text\": \"", name, ok);
  for (; *text != 0; text++) {
    if (*text == '"' || *text == '\\') putchar('\\');
    if ((unsigned char)*text >= ' ') putchar(*text);
  }
  printf("\"}\n");
  fflush(stdout);
}

int main(void) {
  for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
    /* Each has a connection of its own: what fails must not fail the next. */
    pn_message_t *got = pn_message();
    const char *trouble = "no connection";
    if (engine_open(&engine)) {
      trouble = CASES[i].run(got);
    } else if (engine.trouble[0] != 0) {
      trouble = engine.trouble;
    }
    tell(CASES[i].name, trouble == NULL ? "true" : "false",
         trouble == NULL ? "" : trouble);
    engine_close(&engine);
    pn_message_free(got);
  }
  for (size_t i = 0; i < sizeof NO_CALL / sizeof NO_CALL[0]; i++)
    tell(NO_CALL[i], "null", "AMQP 1.0 has no such thing; it is Service Bus's own");
  return 0;
}
