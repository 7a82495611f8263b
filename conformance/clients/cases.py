"""What every client is asked to do, in the order of the page.

A program answers each case that it has; a case that its SDK has no call for is told as
such (`"ok": null`). A case of this list that a program never mentions has failed: a
program that ends early must not look like one that passed.
"""

from typing import Final

CASES: Final = {
    "send": "send a message, receive body, id, subject and application properties",
    "send-batch": "send several messages at once",
    "no-id": "a message sent without an id has one and can be settled",
    "receive-and-delete": "receive without settling",
    "prefetch": "receive with credit that is given together with the attach",
    "complete": "complete: the message is gone",
    "abandon": "abandon: it comes again, with a higher delivery count",
    "defer": "defer, and receive by sequence number",
    "dead-letter": "dead-letter with reason and description, receive from there",
    "renew": "renew the lock of a message",
    "peek": "peek without locking",
    "schedule": "schedule: it comes when it is due, with the TTL it was sent with",
    "cancel": "cancel a scheduled message",
    "time-to-live": "TTL and expiry of a received message agree, also beyond 49 days",
    "session-named": "receive from a session by name",
    "session-next": "receive from the next available session",
    "session-state": "set, read and clear the state of a session",
    "session-renew": "renew the lock of a session",
    "topic": "publish to a topic, receive from a subscription",
    "rule-sql": "a rule with an SQL filter selects",
    "rule-correlation": "a rule with a correlation filter selects",
    "rule-action": "a rule's action changes the message",
    "admin-queue": "create, get, list, update and delete a queue; its counts",
    "admin-topic": "create, get, list, update and delete a topic",
    "admin-subscription": "create, get, list, update and delete a subscription",
    "admin-rule": "create, get, list, update and delete a rule; $Default by its name",
}

FEW: Final = {
    "transaction": "settle and send in one transaction; roll one back",
}
"""What few SDKs have: a program that does not mention it has no call for it."""
