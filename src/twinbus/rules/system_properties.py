"""The names after `sys.`: properties of a message that are not application properties.

Names are compared in lower case. An action may set those that a sender may set; those
that the bus sets are read-only.
"""

from typing import Final

TEXTS: Final = frozenset(
    (
        *("messageid", "correlationid", "to", "replyto", "label", "sessionid"),
        *("replytosessionid", "contenttype", "partitionkey", "viapartitionkey"),
    )
)
"""Properties with a text value; an action converts other values to text."""

SETTABLE: Final = TEXTS | {"timetolive", "scheduledenqueuetimeutc"}

NAMES: Final = SETTABLE | {
    *("enqueuedtimeutc", "expiresatutc", "sequencenumber", "deliverycount", "size"),
    *("enqueuedsequencenumber", "deadlettersource", "state"),
}

_ALIASES: Final = {
    "subject": "label",
    "scheduledenqueuetime": "scheduledenqueuetimeutc",
    "enqueuedtime": "enqueuedtimeutc",
    "expiresat": "expiresatutc",
}


def canonical_name(name: str) -> str:
    """The name in lower case; `subject` becomes its old name `label`."""
    lower = name.lower()
    return _ALIASES.get(lower, lower)
