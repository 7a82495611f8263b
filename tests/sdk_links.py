"""Senders and receivers of the vendor's SDK that are closed at once.

Their own close waits up to a second for the thread that keeps the connection alive.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from azure.servicebus import ServiceBusReceiver, ServiceBusSender

from twinbus.sdk_internals.blocking_links import close_link

Link = TypeVar("Link", ServiceBusReceiver, ServiceBusSender)


@contextmanager
def opened(link: Link) -> Iterator[Link]:
    """In place of the link itself, for a `with` statement."""
    try:
        yield link.__enter__()
    finally:
        close_link(link)
