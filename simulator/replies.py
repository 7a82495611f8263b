"""Replies to requests of simulated clients.

The outcome is done, refused, or unknown if the bus crashed before it could answer.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from simulator.life import Life
from twinbus.errors import InternalError, MessagingEntityNotFound, ServiceBusError


@dataclass(slots=True)
class Reply:
    """How a request ended."""

    error: ServiceBusError | None = None
    is_unknown: bool = False

    @property
    def is_ok(self) -> bool:
        return self.error is None and not self.is_unknown


@contextmanager
def replied(life: Life, what: str) -> Iterator[Reply]:
    """Turn errors and a crash of the bus into a reply."""
    reply = Reply()
    life.tell(f"request: {what}")
    try:
        yield reply
    except ServiceBusError as error:
        reply.error = error
        if isinstance(error, MessagingEntityNotFound):
            life.reconnect()
        reply.is_unknown = isinstance(error, InternalError)
    except asyncio.CancelledError:
        reply.is_unknown = True
    if not life.is_alive:
        reply.is_unknown = True
    outcome = "unknown" if reply.is_unknown else type(reply.error).__name__
    life.tell(f"reply to {what}: {'done' if reply.is_ok else outcome}")
