"""What a paired process asks of one bus, done at the bus.

Each function stands where a link or a management node stands: it uses the owner of the
store as they do, and raises the bus's errors.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, final
from uuid import UUID

from simulator.life import Life
from simulator.pair_message import PairMessage, Seen, read
from twinbus.amqp.messaging import Message, Properties, encode_message
from twinbus.broker import message as broker_message
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.receiver import Receiver
from twinbus.doors.amqp import management_locks, management_messages, management_sent
from twinbus.doors.amqp.request_links import Request, Response
from twinbus.encoding.incoming import PING_CONTENT_TYPE
from twinbus.encoding.outgoing import encode_delivery
from twinbus.entities.entity import Entity
from twinbus.errors import MessageLockLost, MessageNotFound
from twinbus.limits import MESSAGE_BYTES
from twinbus.links.arrivals import Arrivals
from twinbus.links.sending import Sending, check, check_room
from twinbus.operations.awaited_commit import AwaitedCommit

Taken = tuple[Seen, UUID]
"""A message under a lock, and its token."""

_PING: Final = encode_message(
    Message(properties=Properties(content_type=PING_CONTENT_TYPE.decode()))
)


def _request(**value: object) -> Request:
    body = {name.replace("_", "-"): item for name, item in value.items()}
    return Request(operation="simulated", properties={}, value=body)


def _value_of(response: Response) -> dict[str, Any]:
    return response.value if isinstance(response.value, dict) else {}


# --- sending ------------------------------------------------------------------------


async def send(
    life: Life, path: str, messages: Sequence[PairMessage], *, restores: bool = False
) -> None:
    """All of them or none. `restores`: the sender may send to the whole namespace."""
    await _take(life, path, [message.encoded() for message in messages], restores)


async def ping(life: Life, path: str) -> None:
    await _take(life, path, [_PING], False)


async def _take(life: Life, path: str, raws: list[bytes], restores: bool) -> None:
    entity, owner, now = life.namespace.entity(path), life.owner, life.clock.now()
    entity.check_may_send()
    fragment = entity.fragment()
    headroom_bytes = life.namespace.sizes.headroom_bytes_of(entity)
    arrivals = Arrivals(
        path,
        life.namespace.extensions,
        MESSAGE_BYTES + headroom_bytes,
        headroom_bytes,
        lambda _: restores,
    )
    check_room(fragment, sum(len(raw) for raw in raws), now)
    messages = [arrivals.read_one(raw, now) for raw in raws]
    for message in messages:
        check(fragment, message)
    answer = AwaitedCommit()
    actor = owner.introduce(f"send {path}")
    owner.admit(Sending(fragment, messages, actor, 0, answer))
    await answer.done()


async def schedule(life: Life, path: str, messages: Sequence[PairMessage]) -> list[int]:
    entries = [{"message": message.encoded()} for message in messages]
    response = await management_messages.schedule_messages(
        life.managed(path, False), _request(messages=entries)
    )
    return [int(number) for number in _value_of(response)["sequence-numbers"].items]


async def cancel(life: Life, path: str, numbers: Sequence[int]) -> None:
    await management_messages.cancel_scheduled(
        life.managed(path, False), _request(sequence_numbers=list(numbers))
    )


async def cancel_sent(life: Life, path: str, send_ids: Sequence[bytes]) -> list[bool]:
    response = await management_sent.cancel_sent(
        life.managed(path, False), _request(send_ids=list(send_ids))
    )
    return [bool(item) for item in _value_of(response)["cancelled"]]


async def peek(
    life: Life, path: str, first: int, count: int, *, dead_letter: bool = False
) -> list[Seen]:
    response = await management_messages.peek(
        life.managed(path, dead_letter),
        _request(from_sequence_number=first, message_count=count),
    )
    entries = _value_of(response).get("messages", ())
    return [read(entry["message"], path, dead_letter) for entry in entries]


# --- receiving ----------------------------------------------------------------------


@final
class BacklogReceiver(Receiver):
    """Takes messages under locks until it has enough, or leaves."""

    def __init__(self, life: Life, entity: Entity, count: int) -> None:
        super().__init__(life.owner.introduce(f"receive {entity.path}"), True)
        self._life = life
        self._entity = entity
        self._fragment = entity.fragment()
        self._credit = count
        self.taken: list[Taken] = []
        self.has_some = asyncio.Event()

    def join(self) -> None:
        self._entity.receive_links().add(self)
        self._life.owner.join(self._fragment, self)
        self._life.owner.offer_capacity(self._fragment, self)

    def leave(self) -> None:
        self._credit = 0
        self._entity.receive_links().discard(self)
        self._life.owner.leave(self._fragment, self)

    def capacity(self) -> int:
        return self._credit

    def deliver_locked(self, locks: list[MessageLock]) -> None:
        for lock in locks:
            self._credit -= 1
            number = self._fragment.sequence_number(lock.message)
            raw = encode_delivery(lock.message, number, lock.ends_at(), lock.token)
            seen = read(raw, self._entity.path)
            self.taken.append((seen, UUID(bytes_le=lock.token)))
        self.has_some.set()

    def deliver_removed(self, messages: list[broker_message.Message]) -> None:
        raise AssertionError("it locks what it takes")

    def served(self) -> None:
        """It does not drain."""

    def session_lost(self) -> None:
        raise AssertionError("it has no session")

    def detach(self, error: Exception) -> None:
        """The queue is gone, or does not hand out messages any more."""
        self.has_some.set()


async def receive(
    life: Life, path: str, count: int, wait_seconds: float
) -> list[Taken]:
    """Lock messages, and wait for the first of them if there is none."""
    entity = life.namespace.entity(path)
    entity.check_may_receive()
    receiver = BacklogReceiver(life, entity, count)
    receiver.join()
    try:
        async with asyncio.timeout(max(wait_seconds, 0.05)):
            await receiver.has_some.wait()
    except TimeoutError:
        pass
    finally:
        receiver.leave()
    return receiver.taken


async def settle(
    life: Life, path: str, tokens: Sequence[UUID], status: str, **more: str
) -> None:
    """Settle by lock token; those whose lock is lost are somebody else's."""
    try:
        await _dispose(life, path, tokens, status, more)
    except MessageLockLost:
        for token in tokens if len(tokens) > 1 else ():
            await settle(life, path, [token], status, **more)


async def _dispose(
    life: Life, path: str, tokens: Sequence[UUID], status: str, more: dict[str, str]
) -> None:
    await management_locks.update_disposition(
        life.managed(path, False),
        _request(disposition_status=status, lock_tokens=list(tokens), **more),
    )


async def take_deferred(life: Life, path: str, numbers: Sequence[int]) -> list[Taken]:
    """Lock deferred messages, without those that are gone or taken."""
    try:
        response = await management_messages.receive_deferred(
            life.managed(path, False),
            _request(sequence_numbers=list(numbers), receiver_settle_mode=1),
        )
    except MessageNotFound:
        if len(numbers) == 1:
            return []
        return [
            taken
            for number in numbers
            for taken in await take_deferred(life, path, [number])
        ]
    return [
        (read(entry["message"], path), entry["lock-token"])
        for entry in _value_of(response)["messages"]
    ]
