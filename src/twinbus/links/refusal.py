"""How the domain's errors look on AMQP: the one translation of `errors.py`.

Every refusal gets a tracking id, which the peer is told and the log contains.
"""

import logging
from typing import Final
from uuid import uuid4

from twinbus.amqp.errors import AmqpError
from twinbus.errors import ServiceBusError

_log = logging.getLogger(__name__)

_TRANSFER_LIMIT_EXCEEDED: Final = "amqp:link:transfer-limit-exceeded"


def amqp_error(error: ServiceBusError) -> AmqpError:
    """The error as it travels in a detach, a close or a rejected."""
    track(error)
    return AmqpError(error.condition, error.description)


def overrun(text: str) -> AmqpError:
    """For a peer that sends more than the link's credit allows."""
    return AmqpError(_TRANSFER_LIMIT_EXCEEDED, text)


def track(error: ServiceBusError) -> None:
    """Give the error a tracking id, and leave a trace of it in the log."""
    if not error.tracking_id:
        error.tracking_id = str(uuid4())
        _log.info("refused: %s %s", error.condition, error.description)
