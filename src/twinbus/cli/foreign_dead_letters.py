"""Resubmits dead letters of a namespace that can't do it itself, with the vendor's SDK.

To resubmit a dead letter, a copy is sent and then the dead letter is removed. A crash
in between leaves both; a message is never lost.

Dead letters can only be received in order. Those in front of a wanted one are locked
meanwhile, and released afterwards.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Final

from azure.core.exceptions import AzureError
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import ServiceBusError

from twinbus.cli import exit_codes
from twinbus.cli.dead_letter_choice import Choice
from twinbus.cli.failure import Failure
from twinbus.cli.sdk_side import PATIENCE_SECONDS, SdkSide, opened, told_as_failure
from twinbus.clock import SystemClock
from twinbus.durations import readable_duration
from twinbus.instants import instant_ms
from twinbus.pairing.backlog_survey import survey_backlog
from twinbus.pairing.sdk.messages import outgoing_copy

Progress = Callable[[int], None]

_ROLE: Final = "The namespace"
_AT_A_TIME: Final = 100
_WAIT_SECONDS: Final = 2.0
"""If nothing comes for so long, the dead-letter queue is empty."""

_HELD: Final = 2_000
"""Dead letters that may be locked while others are searched for."""

_SUBSCRIPTIONS: Final = "/subscriptions/"
_KEPT_ANNOTATIONS: Final = ("x-opt-partition-key", "x-opt-via-partition-key")
_OF_DEAD_LETTERS: Final = ("DeadLetterReason", "DeadLetterErrorDescription")


async def backlog_entities(connection_string: str, primary_name: str) -> list[str]:
    """The backlog queues of a primary that have dead letters. Raises Failure."""
    async with opened(connection_string, _ROLE) as side:
        with told_as_failure(side):
            survey = await survey_backlog(
                side.administration, side.client, primary_name, peek_count=0
            )
    if not survey.queues:
        raise Failure(survey.missing, exit_codes.NOT_FOUND)
    return [queue.path for queue in survey.queues if queue.dead_letters]


def _age_ms(message: Any) -> int:
    return max(SystemClock().now() - instant_ms(message.enqueued_time_utc), 0)


async def resubmitted_elsewhere(
    connection_string: str, entity: str, choice: Choice, progress: Progress
) -> int:
    """Send dead letters to their queue again. Returns how many. Raises Failure."""
    if _SUBSCRIPTIONS in entity.lower():
        raise Failure(
            f"'{entity}' is a subscription: what is sent to its topic again reaches "
            "all subscriptions. Only a twinbus that is not strict puts dead letters "
            "back; receive these with a program of yours.",
            exit_codes.USAGE,
        )
    async with opened(connection_string, _ROLE) as side:
        with told_as_failure(side, entity):
            async with side.client.get_queue_sender(entity) as sender:
                again = _Again(sender, await _remembered_for(side, entity))
                done = await _each(side, entity, choice, again, progress)
        if again.early_count:
            raise Failure(_too_early(entity, done, again), exit_codes.FAILED)
    return done


async def _remembered_for(side: SdkSide, entity: str) -> timedelta:
    """How long the queue would drop a copy as a duplicate. Zero also if the key has no
    right to ask."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            properties = await side.administration.get_queue(entity)
    except (AzureError, OSError):
        return timedelta(0)
    if not properties.requires_duplicate_detection:
        return timedelta(0)
    window: timedelta = properties.duplicate_detection_history_time_window
    return window


class _Again:
    """Resubmits dead letters, except those that the queue would drop."""

    def __init__(self, sender: Any, remembered_for: timedelta) -> None:
        self._sender = sender
        self.remembered_for = remembered_for
        # Dead letters that stay, because they are too young.
        self.early_count = 0

    async def __call__(self, receiver: Any, message: Any) -> bool:
        age = timedelta(milliseconds=_age_ms(message))
        if message.message_id is not None and age < self.remembered_for:
            self.early_count += 1
            return False
        await self._sender.send_messages(resubmitted(message))
        await receiver.complete_message(message)
        return True


def _too_early(entity: str, done: int, again: _Again) -> str:
    window = readable_duration(again.remembered_for // timedelta(milliseconds=1))
    return (
        f"Resubmitted: {done}. '{entity}' detects duplicates, and would drop the "
        f"copies of {again.early_count} dead letters that are younger than {window}. "
        "They are still there: resubmit them later."
    )


def resubmitted(message: Any) -> ServiceBusMessage:
    """A copy to send: a new message, without what the bus wrote into it.

    The send id is removed, too: the queue knows it, and would drop the copy.
    """
    copy = outgoing_copy(message)
    raw = copy.raw_amqp_message
    raw.annotations = {
        name: value
        for name, value in (raw.annotations or {}).items()
        if _text(name) in _KEPT_ANNOTATIONS or not _text(name).startswith("x-opt-")
    }
    raw.application_properties = {
        name: value
        for name, value in (raw.application_properties or {}).items()
        if _text(name) not in _OF_DEAD_LETTERS
    }
    if raw.header is not None:
        raw.header.delivery_count = None
    return copy


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


@asynccontextmanager
async def _receiver(side: SdkSide, entity: str) -> AsyncIterator[Any]:
    """A receiver of the dead letters of a queue. Raises Failure."""
    receiver = side.client.get_queue_receiver(
        entity, sub_queue=ServiceBusSubQueue.DEAD_LETTER
    )
    with told_as_failure(side, entity):
        async with asyncio.timeout(PATIENCE_SECONDS):
            await receiver.__aenter__()
        async with receiver:
            yield receiver


async def _each(
    side: SdkSide,
    entity: str,
    choice: Choice,
    act: Callable[[Any, Any], Awaitable[bool]],
    progress: Progress,
) -> int:
    """Call `act` with every chosen dead letter; it returns whether it has done it.
    Returns how many were done."""
    taken = 0
    passed_by: list[Any] = []
    async with _receiver(side, entity) as receiver:
        try:
            while not choice.is_done(taken) and len(passed_by) < _HELD:
                # Receive no more than are wanted: they are locked.
                wanted = _AT_A_TIME if choice.count is None else choice.count - taken
                messages = await receiver.receive_messages(
                    min(wanted, _AT_A_TIME), max_wait_time=_WAIT_SECONDS
                )
                if not messages:
                    break
                for message in messages:
                    is_meant = choice.takes(message.sequence_number)
                    if choice.is_done(taken) or not is_meant:
                        passed_by.append(message)
                    elif await act(receiver, message):
                        taken += 1
                        progress(taken)
                    else:
                        passed_by.append(message)
        finally:
            await _give_back(receiver, passed_by)
    return taken


async def _give_back(receiver: Any, messages: Sequence[Any]) -> None:
    for message in messages:
        # If its lock has ended, it was released already.
        with suppress(ServiceBusError):
            await receiver.abandon_message(message)
