"""Peeks at messages by number, which changes nothing and can be repeated.

A namespace answers a peek with messages of every state from a number on, in rising
order, with limits in messages and bytes. The next peek begins after the last message.
"""

from collections.abc import Iterator
from typing import Final

from twinbus.broker.message import DEFERRED
from twinbus.sdk_internals import blocking_links
from twinbus.spark.portable.delivered import Delivered
from twinbus.spark.portable.namespace import PortableNamespace
from twinbus.spark.portable.number_ranges import NumberRanges

PAGE_COUNT: Final = 250
"""The most messages that Service Bus returns for a peek."""


def peek(
    namespace: PortableNamespace, path: str, first: int, count: int = PAGE_COUNT
) -> list[Delivered]:
    """Messages from a number on. Raises PortableError."""
    answer = namespace.ask(
        path,
        "peek-message",
        {"from-sequence-number": blocking_links.long(first), "message-count": count},
    )
    return [Delivered(bytes(m[b"message"])) for m in answer.get(b"messages", ())]


def pages(
    namespace: PortableNamespace, path: str, first: int, end: int | None = None
) -> Iterator[list[Delivered]]:
    """All messages from a number up to another, page by page."""
    at = first
    while end is None or at < end:
        page = peek(namespace, path, at)
        if not page:
            return
        at = _last_of(page) + 1
        if end is not None:
            page = [message for message in page if message.number < end]
        if page:
            yield page


def peek_numbers(
    namespace: PortableNamespace, path: str, numbers: NumberRanges
) -> Iterator[list[Delivered]]:
    """The messages with these numbers that exist, page by page. Gaps that are larger
    than a page are skipped."""
    at = numbers.next_from(0)
    while at is not None:
        page = peek(namespace, path, at)
        if not page:
            return
        wanted = [message for message in page if message.number in numbers]
        if wanted:
            yield wanted
        at = numbers.next_from(_last_of(page) + 1)


def _last_of(page: list[Delivered]) -> int:
    """The highest number: messages of a partitioned entity come in any order."""
    return max(message.number for message in page)


def deferred_among(
    namespace: PortableNamespace, path: str, numbers: NumberRanges
) -> Iterator[Delivered]:
    """The messages with these numbers that exist and are deferred. A generator: a batch
    may be too large to keep all of its messages in memory."""
    for page in peek_numbers(namespace, path, numbers):
        for message in page:
            if message.state == DEFERRED:
                yield message


def last_number(
    namespace: PortableNamespace, path: str, known: int | None = None
) -> int | None:
    """The highest number in use; `known` is one that exists. Found by bisection: a peek
    tells whether there is a message from a number on."""
    if known is None:
        known = _number_from(namespace, path, 1)
        if known is None:
            return None
    low, step = known, 1
    while (found := _number_from(namespace, path, low + step)) is not None:
        low, step = found, step * 2
    # There is no message from `high` on.
    high = low + step
    while low + 1 < high:
        middle = (low + high) // 2
        found = _number_from(namespace, path, middle)
        if found is None:
            high = middle
        else:
            low = found
    return low


def _number_from(namespace: PortableNamespace, path: str, number: int) -> int | None:
    found = peek(namespace, path, number, 1)
    return found[0].number if found else None


def first_since(
    namespace: PortableNamespace, path: str, instant_ms: int, last: int
) -> int:
    """The number of the first message that was enqueued at this time or later; if there
    is none, one after the last. Later numbers have later times."""
    low, high = 0, last + 1
    while low < high:
        middle = (low + high) // 2
        found = peek(namespace, path, middle, 1)
        if found and found[0].enqueued_at < instant_ms:
            low = found[0].number + 1
        else:
            high = middle
    return low
