"""Applies the frequent events of a connection in one compiled loop.

Nearly every event of a busy connection is a message sent to a queue, or a settlement of
a received one. The first event of another kind ends the loop, because order matters: a
transfer may follow the attach that it needs.
"""

from twinbus.amqp.events import DispositionReceived, Event, MessageReceived
from twinbus.amqp.transactions import TransactionalState
from twinbus.links.coordinator import Coordinator
from twinbus.links.output import Output
from twinbus.links.receive_link import on_disposition
from twinbus.links.send_link import SendLink
from twinbus.links.transactional_disposition import on_transactional_disposition


def apply_deliveries(
    events: list[Event], at: int, coordinator: Coordinator, output: Output, now: int
) -> int:
    """Apply events from `at` on; return the index of the first of another kind."""
    while at < len(events):
        event = events[at]
        if isinstance(event, MessageReceived):
            link = event.link.context
            if not isinstance(link, SendLink):
                return at
            link.on_message(event, now)
        elif isinstance(event, DispositionReceived):
            state = event.state
            if isinstance(state, TransactionalState):
                on_transactional_disposition(event, state, coordinator, output, now)
            else:
                on_disposition(event, output, now)
        else:
            return at
        at += 1
    return at
