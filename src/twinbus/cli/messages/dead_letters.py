"""Shows, resubmits and removes dead letters, with our own AMQP client.

A twinbus puts dead letters back itself, each in one commit, thousands in a request: a
command that is killed has resubmitted some and left the others, and can be repeated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from twinbus.amqp.outcomes import ACCEPTED, RELEASED
from twinbus.amqp.types import AmqpArray, Int, Timestamp
from twinbus.cli.dead_letter_choice import Choice
from twinbus.cli.messages.message_json import message_json
from twinbus.cli.messages.namespace_side import NamespaceSide, told_as_failure
from twinbus.cli.messages.peeking import peeked_payloads
from twinbus.cli.messages.progress import Progress
from twinbus.cli.messages.purging import purge_active
from twinbus.client.errors import ClientError
from twinbus.client.management import ask_extension
from twinbus.instants import instant_ms

RESUBMIT: Final = "resubmit"
"""The extension of a twinbus that puts dead letters back."""

_SUFFIX: Final = "/$DeadLetterQueue"
_PATH: Final = "x-ms-path"
"""The property of a diverted message that says where it belongs."""

_AT_ONCE: Final = 4_000
_NUMBERS_AT_ONCE: Final = 1_000
_HELD: Final = 2_000
"""Dead letters that may be locked while others are searched for."""

_WAIT_SECONDS: Final = 2.0
"""If nothing comes for so long, the dead-letter queue is empty."""

_LONG: Final = 0x81
_BEFORE: Final = "enqueued-time-utc"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A dead letter, as it is shown."""

    entity: str
    sequence_number: int
    message_id: str
    reason: str
    description: str
    # Of a backlog queue: where it belongs on the primary.
    path: str
    dead_lettered_at: int
    age_ms: int
    # The message with body and properties, as `twinbus peek` shows it.
    message: dict[str, Any]


async def listed(
    side: NamespaceSide, entity: str, limit: int, *, has_raw: bool = False
) -> list[DeadLetter]:
    """The first dead letters. Raises Failure."""
    found: list[DeadLetter] = []
    with told_as_failure(side, entity):
        async for payloads in peeked_payloads(side, entity + _SUFFIX, count=limit):
            now = side.clock.now()
            shown = (message_json(one, has_raw=has_raw) for one in payloads)
            found += [_dead_letter(entity, message, now) for message in shown]
    return found


def _dead_letter(entity: str, message: dict[str, Any], now: int) -> DeadLetter:
    enqueued_at = instant_ms(datetime.fromisoformat(message["enqueued_time"]))
    return DeadLetter(
        entity=entity,
        sequence_number=message["sequence_number"],
        message_id=message.get("message_id", ""),
        reason=message.get("dead_letter_reason", ""),
        description=message.get("dead_letter_description", ""),
        path=message.get("application_properties", {}).get(_PATH, ""),
        dead_lettered_at=enqueued_at,
        age_ms=max(now - enqueued_at, 0),
        message=message,
    )


async def resubmitted(
    side: NamespaceSide, entity: str, choice: Choice, progress: Progress
) -> int:
    """Let the namespace put dead letters back. Those that come meanwhile stay: what
    fails again at once would go round for ever. Returns how many. Raises Failure."""
    path = entity + _SUFFIX
    # The first request is answered with the time of the server, which is what counts.
    before: object = None
    done = 0
    with told_as_failure(side, entity):
        for body in _requests(choice):
            while not choice.is_done(done):
                body["message-count"] = Int(_wanted(choice, done))
                if before is not None:
                    body[_BEFORE] = before
                answer = await _resubmit(side, path, body)
                before = before or answer.get(_BEFORE) or Timestamp(side.clock.now())
                moved = int(str(answer["message-count"]))
                done += moved
                progress(done)
                if not moved or choice.numbers:
                    break
    return done


def _requests(choice: Choice) -> list[dict[object, object]]:
    """One, or one for each portion of the numbers."""
    numbers = sorted(choice.numbers)
    if not numbers:
        return [{}]
    return [
        {
            "sequence-numbers": AmqpArray(
                _LONG, list(numbers[at : at + _NUMBERS_AT_ONCE])
            )
        }
        for at in range(0, len(numbers), _NUMBERS_AT_ONCE)
    ]


def _wanted(choice: Choice, done: int) -> int:
    return _AT_ONCE if choice.count is None else min(choice.count - done, _AT_ONCE)


async def _resubmit(
    side: NamespaceSide, path: str, body: dict[object, object]
) -> dict[object, object]:
    async def request() -> dict[object, object]:
        connection = await side.connection(path)
        return await ask_extension(connection, path, RESUBMIT, body)

    return await side.patiently(request)


async def removed(
    side: NamespaceSide, entity: str, choice: Choice, progress: Progress
) -> int:
    """Remove dead letters for good. Returns how many. Raises Failure."""
    path = entity + _SUFFIX
    with told_as_failure(side, entity):
        if not choice.numbers:
            return await purge_active(side, path, progress, choice.count)
        return await _removed_by_number(side, path, choice, progress)


async def _removed_by_number(
    side: NamespaceSide, path: str, choice: Choice, progress: Progress
) -> int:
    """Dead letters can only be received in order. Those in front of a wanted one are
    locked meanwhile, and released afterwards."""
    connection = await side.connection(path)
    receiver = await side.patiently(lambda: connection.receiver(path, credit=0))
    done = 0
    passed_by: list[int] = []
    try:
        while not choice.is_done(done) and len(passed_by) < _HELD:
            receiver.issue_credit(100)
            batch = await receiver.receive_batch(100, timeout_seconds=_WAIT_SECONDS)
            if not batch:
                break
            for one in batch:
                at = one.delivery_id
                if choice.takes(message_json(one.payload)["sequence_number"]):
                    await receiver.settle_confirmed(at, at, ACCEPTED)
                    done += 1
                    progress(done)
                else:
                    passed_by.append(at)
    finally:
        passed_by += [one.delivery_id for one in await receiver.drain()]
        await _give_back(receiver, passed_by)
    return done


async def _give_back(receiver: Any, deliveries: Sequence[int]) -> None:
    for at in deliveries:
        try:
            receiver.settle(at, at, RELEASED)
        except ClientError:
            # The locks end by themselves.
            return
    await receiver.close()
