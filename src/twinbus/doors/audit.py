"""The audit log: who has administered what, and with which result.

One line for each call that changes something or reads keys, whatever the log level is
(the setting `audit` turns it off). Calls that only look are logged at level debug. A
line names the rule whose key was used, never a key. A client without a key cannot fill
a disk with lines: the doors limit those of its calls.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from twinbus.errors import ServiceBusError

LOGGER: Final = "twinbus.audit"

_log = logging.getLogger(LOGGER)

_DONE: Final = "done"


def audit(peer: str, key_name: str, call: str, result: str, *, looks: bool) -> None:
    """`looks`: nothing was to be changed."""
    level = logging.DEBUG if looks else logging.INFO
    _log.log(level, "%s with key '%s': %s: %s", peer, key_name, call, result)


@contextmanager
def audited(peer: str, key_name: str, call: str, *, looks: bool) -> Iterator[None]:
    """Note what is done inside, and how it ends."""
    result = "failed"
    try:
        yield
        result = _DONE
    except ServiceBusError as error:
        result = f"refused, {type(error).__name__}"
        raise
    finally:
        audit(peer, key_name, call, result, looks=looks)
