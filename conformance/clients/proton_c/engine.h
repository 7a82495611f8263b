/* A blocking connection on Proton's engine: say something, wait for something. */

#ifndef ENGINE_H
#define ENGINE_H

#include <proton/connection.h>
#include <proton/connection_driver.h>
#include <proton/link.h>
#include <proton/message.h>
#include <proton/session.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
  pn_connection_driver_t driver;
  pn_session_t *session;
  int socket;
  /* Why it cannot go on; empty while it can. */
  char trouble[256];
} engine_t;

/* Connect as the variables of the frame say, and open a session. */
bool engine_open(engine_t *engine);
void engine_close(engine_t *engine);

/* Read and write until there is news, or for so many milliseconds. */
bool engine_turn(engine_t *engine, int milliseconds);

pn_link_t *engine_sender(engine_t *engine, const char *address);

typedef struct {
  const char *address;
  int credit;
  bool settled;
  /* NULL: no session; "": the next one. */
  const char *session_id;
} receiver_options_t;

/* Attach and give credit in one write, as Proton's clients do. */
pn_link_t *engine_receiver(engine_t *engine, receiver_options_t options);

/* Wait until the peer has attached, too. */
bool engine_attached(engine_t *engine, pn_link_t *link);
void engine_detach(engine_t *engine, pn_link_t *link);

/* Send and wait for the outcome; true if it was accepted. */
bool engine_send(engine_t *engine, pn_link_t *sender, pn_message_t *message);

/* The next delivery, its message decoded; NULL after so many milliseconds. */
pn_delivery_t *engine_receive(engine_t *engine, pn_link_t *receiver,
                              pn_message_t *message, int milliseconds);

/* Wait until the bus has confirmed an outcome. */
bool engine_settled(engine_t *engine, pn_delivery_t *delivery);

#endif
