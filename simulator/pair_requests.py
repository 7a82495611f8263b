"""Requests of a paired process to one bus.

Each function calls the operation that a door would call, and raises its errors.
"""

from collections.abc import Sequence
from typing import Final

from simulator.caller import TrustedCaller
from simulator.life import Life
from simulator.pair_message import PairMessage, Seen, read
from twinbus.amqp.messaging import Message, Properties, encode_message
from twinbus.encoding.incoming import PING_CONTENT_TYPE
from twinbus.errors import MessageLockLost, MessageNotFound
from twinbus.links.outcomes import Settlement
from twinbus.operations import (
    cancel_sent as cancelling,
)
from twinbus.operations import (
    deferred,
    locks,
    peeking,
    receiving,
    scheduling,
    sending,
)
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.received_message import ReceivedMessage

Taken = tuple[Seen, bytes]
"""A message under a lock, and its token."""

_PING: Final = encode_message(
    Message(properties=Properties(content_type=PING_CONTENT_TYPE.decode()))
)


# --- sending ------------------------------------------------------------------------


async def send(
    life: Life, path: str, messages: Sequence[PairMessage], *, restores: bool = False
) -> None:
    """Send all or none. `restores`: the sender may send to the whole namespace."""
    encoded = [message.encoded() for message in messages]
    await sending.send(_sender(life, path, restores), encoded)


async def ping(life: Life, path: str) -> None:
    await sending.send(_sender(life, path, False), [_PING])


def _sender(life: Life, path: str, restores: bool) -> EntityHandle:
    return life.open(path, TrustedCaller(f"send {path}", may_restore=restores))


async def schedule(life: Life, path: str, messages: Sequence[PairMessage]) -> list[int]:
    encoded = [message.encoded() for message in messages]
    return await scheduling.schedule_messages(life.handle(path), encoded)


async def cancel(life: Life, path: str, numbers: Sequence[int]) -> None:
    await scheduling.cancel_scheduled(life.handle(path), numbers)


async def cancel_sent(life: Life, path: str, send_ids: Sequence[bytes]) -> list[bool]:
    return await cancelling.cancel_sent(life.handle(path), send_ids)


async def peek(
    life: Life, path: str, first: int, count: int, *, dead_letter: bool = False
) -> list[Seen]:
    found = await peeking.peek(life.handle(path, dead_letter), first, count)
    return [read(item.encoded, path, dead_letter) for item in found]


# --- receiving ----------------------------------------------------------------------


async def receive(
    life: Life, path: str, count: int, wait_seconds: float
) -> list[Taken]:
    """Lock messages; wait for the first if there is none."""
    handle = life.open(path, TrustedCaller(f"receive {path}"))
    received = await receiving.receive(handle, count, max(wait_seconds, 0.05))
    return [_taken(item, path) for item in received]


def _taken(item: ReceivedMessage, path: str) -> Taken:
    return read(item.encoded, path), item.lock_token


async def settle(
    life: Life, path: str, tokens: Sequence[bytes], settlement: Settlement
) -> None:
    """Settle by lock token. Messages whose lock is lost are skipped."""
    try:
        await locks.settle(life.handle(path), tokens, settlement)
    except MessageLockLost:
        for token in tokens if len(tokens) > 1 else ():
            await settle(life, path, [token], settlement)


async def take_deferred(life: Life, path: str, numbers: Sequence[int]) -> list[Taken]:
    """Lock deferred messages, except those that are gone or locked."""
    handle = life.handle(path)
    try:
        received = await deferred.receive_deferred(handle, numbers, peek_lock=True)
    except MessageNotFound:
        if len(numbers) == 1:
            return []
        return [
            taken
            for number in numbers
            for taken in await take_deferred(life, path, [number])
        ]
    return [_taken(item, path) for item in received]
