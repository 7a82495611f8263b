"""What a row of a log means for the audit, as expressions of SQL.

A *place* is an entity of a namespace, its dead letters included. What comes to a place
and has not left it is in flight there. A *claim* is a send that a paired sender saw
accepted. A message that has a send id keeps it on every way, so its uid is the same at
both sites; the uid of any other message begins with the store that accepted it.
"""

from typing import Final

IS_SENDER: Final = "source LIKE 'sender-%'"
IS_BACKLOG: Final = "coalesce(contains(entity, '/x-servicebus-transfer/'), false)"
HAS_SEND_ID: Final = "length(message_uid) = 32"

_IN_STORE: Final = f"NOT {IS_SENDER} AND result = 'ok'"
_SENT: Final = "operation IN ('send', 'schedule', 'restore', 'divert')"

CLAIM: Final = (
    f"{IS_SENDER} AND result = 'ok' AND operation IN ('send', 'schedule', 'divert')"
)
DIVERTED: Final = f"{CLAIM} AND operation = 'divert'"
# From outside: by a client, or a syphon.
CREATED: Final = f"{_IN_STORE} AND {_SENT}"
RESTORED: Final = (
    f"{_IN_STORE} AND NOT {IS_BACKLOG} AND (operation = 'restore' OR "
    "(operation = 'send' AND coalesce(purpose = 'syphon', false)))"
)
# By the bus: forwarded, activated, or the copy of a subscription.
ARRIVED: Final = f"{_IN_STORE} AND operation = 'arrive' AND subqueue IS NULL"
MOVED: Final = f"{_IN_STORE} AND operation IN ('forward', 'activate')"
BURIED: Final = f"{_IN_STORE} AND operation = 'arrive' AND subqueue IS NOT NULL"
# A syphon settles a message of the backlog after the primary has accepted it.
BROUGHT_BACK: Final = (
    f"{_IN_STORE} AND {IS_BACKLOG} AND subqueue IS NULL AND "
    "operation IN ('complete', 'receive_and_delete')"
)

# When a sender heard that its message was accepted.
CLAIMED_AT: Final = (
    "occurred_at + make_dt_interval(0, 0, 0, coalesce(latency_ms, 0D) / 1000)"
)

# What is in a place afterwards, more or less. A topic keeps nothing but what is
# scheduled. A message that expires leaves; if it becomes a dead letter, it comes back.
# One that becomes a dead letter for another reason stays.
BALANCE: Final = f"""
CASE
  WHEN {IS_SENDER} OR result <> 'ok' THEN 0
  WHEN entity_kind = 'topic' AND operation IN ('send', 'restore', 'divert', 'arrive')
    THEN 0
  WHEN {_SENT} THEN 1
  WHEN operation = 'arrive' THEN
    IF(subqueue IS NULL OR coalesce(reason = 'TTLExpiredException', false), 1, 0)
  WHEN operation IN ('complete', 'receive_and_delete', 'delete', 'cancel', 'expire',
    'forward', 'activate') THEN -1
  ELSE 0
END
"""

COUNTED: Final = {
    "claimed": CLAIM,
    "sent": f"{CREATED} AND operation <> 'restore'",
    "restored": f"{CREATED} AND operation = 'restore'",
    "arrived": ARRIVED,
    "completed": f"{_IN_STORE} AND operation IN ('complete', 'receive_and_delete')",
    "expired": f"{_IN_STORE} AND operation = 'expire'",
    "removed": f"{_IN_STORE} AND operation IN ('cancel', 'delete')",
    "moved": MOVED,
    "dead_lettered": BURIED,
    "redelivered": (
        f"{_IN_STORE} AND operation = 'lock' AND coalesce(delivery_count > 1, false)"
    ),
}
"""The columns of an entity's counts; a row counts in one of them at most."""
