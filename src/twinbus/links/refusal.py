"""Translates the errors of `errors.py` to AMQP.

Every refusal gets a tracking id, which is sent to the peer and written to the log.
"""

import logging
from typing import Final
from uuid import uuid4

from twinbus.amqp.errors import AmqpError
from twinbus.broker import operation_log
from twinbus.broker.fragment import Fragment
from twinbus.errors import ServiceBusError

_log = logging.getLogger(__name__)

_TRANSFER_LIMIT_EXCEEDED: Final = "amqp:link:transfer-limit-exceeded"


def amqp_error(error: ServiceBusError) -> AmqpError:
    """The error for a detach, a close or a rejected."""
    track(error)
    return AmqpError(error.condition, error.description)


def log_refusal(fragment: Fragment, actor: int, error: ServiceBusError) -> None:
    """Write to the operation log that the actor was refused something here."""
    log = fragment.home.changes.log
    log.event(operation_log.REFUSE, actor, fragment.base, 0, error.condition)


def overrun(text: str) -> AmqpError:
    """The error for a peer that exceeds the link's credit."""
    return AmqpError(_TRANSFER_LIMIT_EXCEEDED, text)


def track(error: ServiceBusError) -> None:
    """Give the error a tracking id, and write it to the log."""
    if not error.tracking_id:
        error.tracking_id = str(uuid4())
        _log.info("refused: %s %s", error.condition, error.description)
