"""The names behind `sys.`: what a message has besides its application properties.

Names are compared in lower case. An action may set those that a sender may set; what
the bus itself decides about a message is for reading.
"""

from typing import Final

TEXTS: Final = frozenset(
    (
        *("messageid", "correlationid", "to", "replyto", "label", "sessionid"),
        *("replytosessionid", "contenttype", "partitionkey", "viapartitionkey"),
    )
)
"""Properties whose value is a text; an action converts what it sets to one."""

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
    """The name in lower case, and `subject` under its old name `label`."""
    lower = name.lower()
    return _ALIASES.get(lower, lower)
