"""Sends messages in batches, each of which is accepted or refused as a whole.

So order is kept, and what was sent is known at each moment. A partitioned entity takes
no batch with different keys: then there is a batch for each key. If a batch is refused
for good, its messages are sent one by one to find out which is to blame.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.messages.draft_sources import UnreadableDraft
from twinbus.cli.messages.message_draft import Draft, DraftError, encoded_drafts
from twinbus.cli.messages.namespace_side import (
    NamespaceSide,
    condition_of,
    failure_of,
    told_as_failure,
)
from twinbus.cli.messages.progress import Progress
from twinbus.cli.messages.read_ahead import read_ahead
from twinbus.client.errors import ClientError, ConnectionLost, NotAccepted
from twinbus.client.sender import ClientSender
from twinbus.encoding.batch import BATCH_FORMAT, encode_batch
from twinbus.errors import (
    ArgumentError,
    ArgumentOutOfRange,
    MessageSizeExceeded,
    NotAllowed,
)

_AT_ONCE: Final = 1_000
"""Messages that are encoded together."""

_BATCH_BYTES: Final = 256 * 1024
"""The size of a batch if the link does not tell the limit."""

_ENVELOPE_BYTES: Final = 8
"""Descriptor, constructor and size of a section of a batch."""

_OF_A_MESSAGE: Final = (
    *(ArgumentError.condition, ArgumentOutOfRange.condition),
    *(MessageSizeExceeded.condition, NotAllowed.condition, "amqp:decode-error"),
)
"""Refusals that may be the fault of one message."""


@dataclass(slots=True)
class OpenOutlet:
    """An open link to an entity, and what was sent on it."""

    side: NamespaceSide
    entity: str
    sender: ClientSender
    progress: Progress
    # Messages in a second; 0: as many as possible.
    rate: float = 0
    sent_count: int = 0
    # A batch of different keys was refused before.
    is_by_key: bool = field(default=False)


async def send_all(
    side: NamespaceSide,
    entity: str,
    drafts: Iterable[Draft],
    progress: Progress,
    rate: float = 0,
) -> int:
    """Send the messages in order. Returns how many. Raises Failure, which says how many
    were sent before."""
    with told_as_failure(side, entity):
        connection = await side.connection(entity)
        sender = await side.patiently(lambda: connection.sender(entity))
    outlet = OpenOutlet(side, entity, sender, progress, rate)
    loop = asyncio.get_running_loop()
    started = loop.time()
    at_once = _AT_ONCE if not rate else max(1, min(_AT_ONCE, int(rate / 10)))
    try:
        async for portion in read_ahead(drafts, at_once):
            if rate:
                due = started + outlet.sent_count / rate
                await asyncio.sleep(max(due - loop.time(), 0))
            await _send_portion(outlet, portion)
    except UnreadableDraft as error:
        text = f"{error} Sent before it: {outlet.sent_count}."
        raise Failure(text, error.exit_code) from None
    return outlet.sent_count


async def _send_portion(outlet: OpenOutlet, portion: Sequence[Draft]) -> None:
    try:
        encoded = encoded_drafts(portion, outlet.side.clock.now())
    except DraftError:
        encoded = _until_wrong(outlet, portion)
    keys = [_key(draft) for draft in portion]
    if not outlet.is_by_key:
        try:
            await _send_batches(outlet, encoded)
            return
        except _MixedKeys as mixed:
            outlet.is_by_key = True
            encoded, keys = encoded[mixed.sent_count :], keys[mixed.sent_count :]
    by_key: dict[str | None, list[bytes]] = {}
    for key, message in zip(keys, encoded, strict=True):
        by_key.setdefault(key, []).append(message)
    for messages in by_key.values():
        await _send_batches(outlet, messages)


def _until_wrong(outlet: OpenOutlet, portion: Sequence[Draft]) -> list[bytes]:
    """Find the message that is wrong. Raises Failure."""
    now = outlet.side.clock.now()
    encoded: list[bytes] = []
    for draft in portion:
        try:
            encoded += encoded_drafts([draft], now)
        except DraftError as error:
            number = outlet.sent_count + len(encoded) + 1
            raise Failure(
                f"Message {number}: {error}. Sent: {outlet.sent_count}.",
                exit_codes.USAGE,
            ) from None
    return encoded


def _key(draft: Draft) -> str | None:
    return draft.get("session_id") or draft.get("partition_key")


class _MixedKeys(Exception):
    """A batch was refused because of its keys, behind so many that were accepted."""

    def __init__(self, sent_count: int) -> None:
        super().__init__("mixed keys")
        self.sent_count = sent_count


async def _send_batches(outlet: OpenOutlet, encoded: Sequence[bytes]) -> None:
    sent = 0
    for batch in _batches(encoded, outlet.sender.max_message_bytes):
        _check_size(outlet, batch)
        try:
            await outlet.side.patiently(partial(_deliver, outlet, batch))
        except (ClientError, OSError, TimeoutError) as error:
            refused = condition_of(error)
            if refused not in _OF_A_MESSAGE or len(batch) == 1:
                raise _ended(outlet, error) from None
            if refused == NotAllowed.condition and not outlet.is_by_key:
                raise _MixedKeys(sent) from None
            await _send_singly(outlet, batch)
        else:
            outlet.sent_count += len(batch)
        sent += len(batch)
        outlet.progress(outlet.sent_count)


def _check_size(outlet: OpenOutlet, batch: Sequence[bytes]) -> None:
    """A link ends with its error before the message has arrived, so the server cannot
    tell its size. Raises Failure."""
    limit = outlet.sender.max_message_bytes
    # What is too large for a batch is a batch of its own.
    if not limit or len(batch[0]) <= limit:
        return
    raise Failure(
        f"Message {outlet.sent_count + 1} has {len(batch[0]):,} bytes, and "
        f"'{outlet.entity}' takes {limit:,} at most. Send a smaller one, or raise "
        "the limit of the entity with 'twinbus entities update "
        f"{outlet.entity} --max-message-size-in-kilobytes N'. Sent before it: "
        f"{outlet.sent_count:,}.",
        exit_codes.FAILED,
    )


async def _send_singly(outlet: OpenOutlet, batch: Sequence[bytes]) -> None:
    for payload in batch:
        try:
            await outlet.side.patiently(partial(_deliver, outlet, [payload]))
        except (ClientError, OSError, TimeoutError) as error:
            raise _ended(outlet, error) from None
        outlet.sent_count += 1


async def _deliver(outlet: OpenOutlet, batch: Sequence[bytes]) -> None:
    if len(batch) == 1:
        await outlet.sender.send(batch[0])
    else:
        payload = encode_batch(batch)
        await outlet.sender.send_many([payload], message_format=BATCH_FORMAT)


def _ended(outlet: OpenOutlet, error: BaseException) -> Failure:
    """Raised instead of the error, with what is known of the messages."""
    count = outlet.sent_count
    so_far = f"Sent: {count}."
    if isinstance(error, NotAccepted):
        so_far = f"It was message {count + 1}; sent before it: {count}."
    elif isinstance(error, ConnectionLost) or not condition_of(error):
        so_far += " Whether the next ones have arrived is not known."
    return failure_of(error, outlet.side, outlet.entity, so_far)


def _batches(encoded: Sequence[bytes], max_bytes: int) -> Iterator[list[bytes]]:
    """Split the messages into batches; each has at least one."""
    limit = min(max_bytes or _BATCH_BYTES, _BATCH_BYTES)
    batch: list[bytes] = []
    size = 0
    for payload in encoded:
        needed = len(payload) + _ENVELOPE_BYTES
        if batch and size + needed > limit:
            yield batch
            batch, size = [], 0
        batch.append(payload)
        size += needed
    if batch:
        yield batch
