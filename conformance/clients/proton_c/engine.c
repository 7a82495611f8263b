/* What is written and read by hand here is what Proton's proactor does in threads: its
   engine and its TLS are the same. */

#define _GNU_SOURCE
#include "engine.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <proton/codec.h>
#include <proton/condition.h>
#include <proton/delivery.h>
#include <proton/event.h>
#include <proton/sasl.h>
#include <proton/ssl.h>
#include <proton/terminus.h>
#include <proton/transport.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 15000

static long long now_ms(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1000LL + at.tv_nsec / 1000000;
}

static void note(engine_t *engine, const char *what, pn_condition_t *condition) {
  if (engine->trouble[0] != 0 || !pn_condition_is_set(condition)) return;
  snprintf(engine->trouble, sizeof engine->trouble, "%s: %s: %s", what,
           pn_condition_get_name(condition),
           pn_condition_get_description(condition));
}

static void on_event(engine_t *engine, pn_event_t *event) {
  switch (pn_event_type(event)) {
    case PN_TRANSPORT_ERROR:
      note(engine, "transport", pn_transport_condition(pn_event_transport(event)));
      break;
    case PN_CONNECTION_REMOTE_CLOSE:
      note(engine, "connection",
           pn_connection_remote_condition(pn_event_connection(event)));
      break;
    case PN_LINK_REMOTE_CLOSE:
      note(engine, "link", pn_link_remote_condition(pn_event_link(event)));
      break;
    default:
      break;
  }
}

static int dial(const char *host, const char *port) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_INET};
  struct addrinfo *found = NULL;
  if (getaddrinfo(host, port, &hints, &found) != 0) return -1;
  int made = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
  if (made >= 0 && connect(made, found->ai_addr, found->ai_addrlen) != 0) {
    close(made);
    made = -1;
  }
  freeaddrinfo(found);
  return made;
}

bool engine_open(engine_t *engine) {
  memset(engine, 0, sizeof *engine);
  engine->socket = dial(getenv("SB_HOST"), getenv("SB_PORT"));
  if (engine->socket < 0) {
    snprintf(engine->trouble, sizeof engine->trouble, "nobody listens");
    return false;
  }
  pn_connection_driver_init(&engine->driver, NULL, NULL);
  pn_connection_t *connection = engine->driver.connection;
  pn_connection_set_container(connection, "conformance");
  pn_connection_set_hostname(connection, getenv("SB_HOST"));
  pn_connection_set_user(connection, getenv("SB_KEY_NAME"));
  pn_connection_set_password(connection, getenv("SB_KEY"));
  pn_sasl_t *sasl = pn_sasl(engine->driver.transport);
  pn_sasl_allowed_mechs(sasl, "PLAIN");
  pn_sasl_set_allow_insecure_mechs(sasl, true);
  if (strcmp(getenv("SB_TRANSPORT"), "tls") == 0) {
    pn_ssl_domain_t *domain = pn_ssl_domain(PN_SSL_MODE_CLIENT);
    pn_ssl_domain_set_trusted_ca_db(domain, getenv("SB_CA_FILE"));
    pn_ssl_domain_set_peer_authentication(domain, PN_SSL_VERIFY_PEER_NAME, NULL);
    pn_ssl_t *ssl = pn_ssl(engine->driver.transport);
    pn_ssl_init(ssl, domain, NULL);
    pn_ssl_set_peer_hostname(ssl, getenv("SB_HOST"));
    pn_ssl_domain_free(domain);
  }
  pn_connection_open(connection);
  engine->session = pn_session(connection);
  pn_session_open(engine->session);
  long long deadline = now_ms() + PATIENCE_MS;
  while (!(pn_session_state(engine->session) & PN_REMOTE_ACTIVE)) {
    if (now_ms() > deadline || !engine_turn(engine, 500)) return false;
  }
  return true;
}

void engine_close(engine_t *engine) {
  if (engine->socket < 0) return;
  pn_connection_close(engine->driver.connection);
  long long deadline = now_ms() + 2000;
  while (now_ms() < deadline && engine_turn(engine, 100)) {
    if (pn_connection_state(engine->driver.connection) & PN_REMOTE_CLOSED) break;
  }
  close(engine->socket);
  pn_connection_driver_destroy(&engine->driver);
}

static bool write_all(engine_t *engine) {
  pn_bytes_t pending = pn_connection_driver_write_buffer(&engine->driver);
  while (pending.size > 0) {
    ssize_t count = send(engine->socket, pending.start, pending.size, MSG_NOSIGNAL);
    if (count < 0) {
      pn_connection_driver_write_close(&engine->driver);
      return false;
    }
    pn_connection_driver_write_done(&engine->driver, (size_t)count);
    pending = pn_connection_driver_write_buffer(&engine->driver);
  }
  return true;
}

static void take_events(engine_t *engine) {
  pn_event_t *event;
  while ((event = pn_connection_driver_next_event(&engine->driver)) != NULL)
    on_event(engine, event);
}

bool engine_turn(engine_t *engine, int milliseconds) {
  take_events(engine);
  if (!write_all(engine)) return false;
  take_events(engine);
  if (pn_connection_driver_finished(&engine->driver)) return false;
  struct pollfd waiting = {.fd = engine->socket, .events = POLLIN};
  if (poll(&waiting, 1, milliseconds) > 0) {
    pn_rwbytes_t room = pn_connection_driver_read_buffer(&engine->driver);
    if (room.size > 0) {
      ssize_t count = recv(engine->socket, room.start, room.size, 0);
      if (count <= 0) {
        pn_connection_driver_read_close(&engine->driver);
      } else {
        pn_connection_driver_read_done(&engine->driver, (size_t)count);
      }
    }
  }
  take_events(engine);
  return write_all(engine) && engine->trouble[0] == 0;
}

static char *link_name(void) {
  static int number = 0;
  static char name[32];
  snprintf(name, sizeof name, "link-%d", ++number);
  return name;
}

pn_link_t *engine_sender(engine_t *engine, const char *address) {
  pn_link_t *link = pn_sender(engine->session, link_name());
  pn_terminus_set_address(pn_link_target(link), address);
  pn_link_open(link);
  return engine_attached(engine, link) ? link : NULL;
}

/* The filter that asks for a session, by its name or null for the next. */
static void ask_for_session(pn_link_t *link, const char *session_id) {
  const char *key = "com.microsoft:session-filter";
  pn_data_t *filter = pn_terminus_filter(pn_link_source(link));
  pn_data_put_map(filter);
  pn_data_enter(filter);
  pn_data_put_symbol(filter, pn_bytes(strlen(key), key));
  if (session_id[0] == 0) {
    pn_data_put_null(filter);
  } else {
    pn_data_put_string(filter, pn_bytes(strlen(session_id), session_id));
  }
  pn_data_exit(filter);
}

pn_link_t *engine_receiver(engine_t *engine, receiver_options_t options) {
  pn_link_t *link = pn_receiver(engine->session, link_name());
  pn_terminus_set_address(pn_link_source(link), options.address);
  if (options.session_id != NULL) ask_for_session(link, options.session_id);
  pn_link_set_snd_settle_mode(link,
                              options.settled ? PN_SND_SETTLED : PN_SND_UNSETTLED);
  pn_link_set_rcv_settle_mode(link,
                              options.settled ? PN_RCV_FIRST : PN_RCV_SECOND);
  pn_link_open(link);
  pn_link_flow(link, options.credit);
  return link;
}

bool engine_attached(engine_t *engine, pn_link_t *link) {
  long long deadline = now_ms() + PATIENCE_MS;
  while (!(pn_link_state(link) & PN_REMOTE_ACTIVE)) {
    if (now_ms() > deadline || !engine_turn(engine, 500)) return false;
  }
  return true;
}

void engine_detach(engine_t *engine, pn_link_t *link) {
  pn_link_close(link);
  long long deadline = now_ms() + PATIENCE_MS;
  while (!(pn_link_state(link) & PN_REMOTE_CLOSED)) {
    if (now_ms() > deadline || !engine_turn(engine, 500)) return;
  }
  pn_link_free(link);
}

bool engine_send(engine_t *engine, pn_link_t *sender, pn_message_t *message) {
  static unsigned number = 0;
  char encoded[4096];
  size_t size = sizeof encoded;
  if (pn_message_encode(message, encoded, &size) != 0) return false;
  long long deadline = now_ms() + PATIENCE_MS;
  while (pn_link_credit(sender) <= 0) {
    if (now_ms() > deadline || !engine_turn(engine, 500)) return false;
  }
  number++;
  pn_delivery_t *delivery =
      pn_delivery(sender, pn_dtag((const char *)&number, sizeof number));
  pn_link_send(sender, encoded, size);
  pn_link_advance(sender);
  while (!pn_delivery_settled(delivery)) {
    if (now_ms() > deadline || !engine_turn(engine, 500)) return false;
  }
  bool accepted = pn_delivery_remote_state(delivery) == PN_ACCEPTED;
  pn_delivery_settle(delivery);
  return accepted;
}

pn_delivery_t *engine_receive(engine_t *engine, pn_link_t *receiver,
                              pn_message_t *message, int milliseconds) {
  long long deadline = now_ms() + milliseconds;
  for (;;) {
    pn_delivery_t *delivery = pn_link_current(receiver);
    if (delivery != NULL && pn_delivery_readable(delivery) &&
        !pn_delivery_partial(delivery)) {
      char encoded[4096];
      ssize_t size = pn_link_recv(receiver, encoded, sizeof encoded);
      pn_link_advance(receiver);
      if (size < 0 || pn_message_decode(message, encoded, (size_t)size) != 0)
        return NULL;
      return delivery;
    }
    long long left = deadline - now_ms();
    if (left <= 0 || !engine_turn(engine, left > 200 ? 200 : (int)left)) return NULL;
  }
}

bool engine_settled(engine_t *engine, pn_delivery_t *delivery) {
  long long deadline = now_ms() + PATIENCE_MS;
  while (!pn_delivery_settled(delivery)) {
    if (now_ms() > deadline || !engine_turn(engine, 500)) return false;
  }
  pn_delivery_settle(delivery);
  return true;
}
