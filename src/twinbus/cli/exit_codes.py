"""Exit codes of `twinbus`: one for each kind of failure, for scripts.

The numbers are public and do not change; a new kind of failure gets a new number.
"""

import signal
from typing import Final

OK: Final = 0

FAILED: Final = 1
"""Refused or failed for a reason that has no code of its own."""

USAGE: Final = 2
"""A flag, a variable or the config file is wrong; nothing was started."""

PORT: Final = 3
"""A port or address cannot be listened on."""

IN_USE: Final = 4
"""Another process works on the data folder."""

UNREADABLE: Final = 5
"""The store, the catalog or an exported log is damaged, of another format, or may not
be read; or the store holds what the catalog does not know."""

STORE_FAILED: Final = 6
"""The store failed while the server was running. What was confirmed is on disk, unless
the disk is damaged."""

UNREACHABLE: Final = 7
"""No server answers."""

UNAUTHORIZED: Final = 8
"""The server refuses the key, or the key lacks the right."""

NOT_FOUND: Final = 9
"""There is no entity of that name, or no message of that number."""

EXISTS: Final = 10
"""There is already an entity of that name, or something where a bus is to be restored.
"""

BACKLOG: Final = 11
"""Both sides of a pair answer, and messages wait in its backlog or are dead letters."""

DAMAGED: Final = 12
"""`twinbus check` found that something is damaged or gone; or a file of a backup or of
a lake is."""

SICK: Final = 13
"""The server did nothing any more, or found its memory inconsistent. A diagnosis is in
the data folder; what was confirmed is stored. Start the server again."""

FAULTS_FOUND: Final = 14
"""`twinbus spark audit` found messages that were lost, doubled or misrouted."""

NOT_KNOWN: Final = 15
"""`twinbus spark audit` cannot tell, because a part of a log is missing."""


INTERRUPTED: Final = 130
"""Ctrl-C. Messages tell what was done before; `watch` ends with 0."""


def named(code: int) -> str:
    """What the end of a process means, for people; below 0 it is a signal."""
    if code < 0:
        return f"signal {signal.Signals(-code).name}"
    for name, value in globals().items():
        if name.isupper() and value == code:
            return f"exit code {code}, {name.lower().replace('_', ' ')}"
    return f"exit code {code}"
