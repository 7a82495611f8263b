"""A sender across the loss of the primary, in virtual time."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from twinbus.pairing.entity_health import State
from twinbus.pairing.failures import FailureKind, Verdict
from twinbus.pairing.send_ids import was_tried
from twinbus.pairing.send_log import SendLog, SentCall

from .world import HANG, Failure, Refused, TimedOut, World, mails, play

AWAY = Failure(FailureKind.CONNECTION, "no route")
BUSY = Failure(FailureKind.BUSY)
SETTINGS = {
    "failover_interval_ms": 10_000,
    "attempt_timeout_ms": 2_000,
    "send_timeout_ms": 20_000,
    "busy_wait_ms": 3_000,
}


def test_healthy_primary_gets_everything() -> None:
    async def scene(world: World) -> None:
        await world.pair.sender("orders").send(mails("ab"))
        assert world.primary.texts("orders") == ["a", "b"]
        assert world.secondary.calls == []

    play(scene)


def test_nothing_is_sent_for_no_message() -> None:
    async def scene(world: World) -> None:
        await world.pair.sender("orders").send([])
        assert world.primary.calls == []

    play(scene)


def test_messages_are_stamped_before_the_first_attempt_and_keep_their_ids() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        first, second = mails("ab")
        second.message_id = "mine"
        await world.pair.sender("orders").send([first, second])
        copies = [mail for queue in world.secondary.held.values() for mail in queue]
        assert [copy.send_id for copy in copies] == [first.send_id, second.send_id]
        assert first.send_id is not None and first.message_id == first.send_id.hex()
        assert copies[0].message_id == first.message_id
        assert copies[1].message_id == "mine"

    play(scene, **SETTINGS)


def test_message_ids_are_left_alone_if_so_asked() -> None:
    async def scene(world: World) -> None:
        (mail,) = mails("a")
        await world.pair.sender("orders").send([mail])
        assert mail.send_id is not None and mail.message_id is None

    play(scene, assign_message_ids=False)


def test_frozen_primary_is_left_after_one_attempt_and_one_interval() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = HANG
        await world.pair.sender("orders").send(mails("a"))
        assert world.now() <= 2_000 + 10_000 + 10
        assert world.backlog() == ["a"]

    play(scene, **SETTINGS)


def test_send_outlives_a_short_trouble_and_goes_straight() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        asyncio.get_running_loop().call_later(5, world.primary.answers.clear)
        await world.pair.sender("orders").send(mails("a"))
        assert world.primary.texts("orders") == ["a"]
        assert world.backlog() == []
        assert world.pair.entity("orders").state is State.HEALTHY

    play(scene, **SETTINGS)


def test_pauses_between_attempts_grow() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        await world.pair.sender("orders").send(mails("a"))
        at = [call[0] for call in world.primary.calls]
        pauses = [later - earlier for earlier, later in pairwise(at)]
        assert pauses[:4] == [100, 200, 400, 800]
        assert max(pauses) <= 2_000

    play(scene, **SETTINGS)


def test_after_a_failover_the_primary_is_not_asked() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        sender = world.pair.sender("orders")
        await sender.send(mails("a"))
        asked, began = len(world.primary.calls), world.now()
        await sender.send(mails("b"))
        assert len(world.primary.calls) == asked
        assert world.now() == began
        assert world.backlog() == ["a", "b"]

    play(scene, **SETTINGS)


def test_own_timeout_that_is_shorter_than_the_interval_is_kept() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = HANG
        with pytest.raises(TimedOut, match="orders"):
            await world.pair.sender("orders").send(mails("a"), 3.0)
        assert world.now() == 3_000

    play(scene, **SETTINGS)


def test_health_is_shared_by_the_senders_of_a_pair_and_by_no_other_entity() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        await world.pair.sender("orders").send(mails("a"))
        began = world.now()
        await world.pair.sender("Orders").send(mails("b"))
        await world.pair.sender("news").send(mails("c"))
        assert world.now() == began
        assert sorted(world.backlog()) == ["a", "b"]
        assert world.primary.texts("news") == ["c"]

    play(scene, **SETTINGS)


@pytest.mark.parametrize(
    "kind",
    [
        FailureKind.AUTHENTICATION,
        FailureKind.AUTHORIZATION,
        FailureKind.TOO_LARGE,
        FailureKind.MESSAGE,
        FailureKind.ARGUMENT,
    ],
)
def test_what_no_detour_mends_is_raised_at_once(kind: FailureKind) -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = Failure(kind)
        with pytest.raises(Failure):
            await world.pair.sender("orders").send(mails("a"))
        assert world.now() == 0
        assert world.pair.entity("orders").state is State.HEALTHY

    play(scene, **SETTINGS)


def test_application_may_judge_a_kind_otherwise() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = Failure(FailureKind.QUOTA)
        with pytest.raises(Failure):
            await world.pair.sender("orders").send(mails("a"))

    play(scene, verdicts={FailureKind.QUOTA: Verdict.RAISE})


def test_busy_primary_is_waited_for_and_never_left() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = BUSY
        asyncio.get_running_loop().call_later(11, world.primary.answers.clear)
        await world.pair.sender("orders").send(mails("a"))
        assert [call[0] for call in world.primary.calls] == [
            0,
            3_000,
            6_000,
            9_000,
            12_000,
        ]
        assert world.backlog() == []

    play(scene, **SETTINGS)


def test_busy_is_raised_if_there_is_no_time_to_wait() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = BUSY
        with pytest.raises(Failure):
            await world.pair.sender("orders").send(mails("a"), 2.0)
        assert world.now() == 0

    play(scene, **SETTINGS)


def test_first_failure_is_raised_where_nobody_waits_for_a_failover() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        sender = world.pair.sender("orders")
        with pytest.raises(Failure):
            await sender.send(mails("a"))
        assert world.now() == 0
        await asyncio.sleep(10.1)
        await sender.send(mails("b"))
        assert world.backlog() == ["b"]

    play(scene, **SETTINGS, wait_during_failover=False)


def test_calls_of_a_sender_keep_their_order_across_a_failover() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = HANG
        sender = world.pair.sender("orders")
        await asyncio.gather(*(sender.send(mails(text)) for text in "abc"))
        assert world.backlog() == ["a", "b", "c"]

    play(scene, **SETTINGS)


def test_call_that_waits_for_another_has_its_own_time() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = HANG
        sender = world.pair.sender("orders")
        first = asyncio.ensure_future(sender.send(mails("a")))
        await asyncio.sleep(0)
        with pytest.raises(TimedOut, match="another call"):
            await sender.send(mails("b"), 1.0)
        assert world.now() == 1_000
        await first

    play(scene, **SETTINGS)


def test_scheduled_messages_have_the_numbers_of_the_primary() -> None:
    async def scene(world: World) -> None:
        sender = world.pair.sender("orders")
        assert await sender.schedule(mails("ab"), 99_000) == [1, 2]
        await sender.cancel([2])
        assert world.primary.texts("orders") == ["a"]

    play(scene)


def test_scheduled_messages_that_are_diverted_have_numbers_of_their_own() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        sender = world.pair.sender("orders")
        numbers = await sender.schedule(mails("ab"), 99_000)
        assert all(number < 0 for number in numbers)
        (held,) = world.secondary.held.values()
        assert [mail.detour.scheduled_at for mail in held if mail.detour] == [
            99_000
        ] * 2

    play(scene, **SETTINGS)


def test_number_says_whether_the_primary_may_have_the_message() -> None:
    async def scene(world: World) -> None:
        world.primary.is_closed = True
        sender = world.pair.sender("orders")
        (unreached,) = await sender.schedule(mails("a"), 99_000)
        assert unreached < 0 and not was_tried(unreached)

    async def other_scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        sender = world.pair.sender("orders")
        (unanswered,) = await sender.schedule(mails("a"), 99_000)
        assert unanswered < 0 and was_tried(unanswered)

    play(scene, **SETTINGS)
    play(other_scene, **SETTINGS)


def test_cancelling_has_its_own_time_behind_another_call() -> None:
    async def scene(world: World) -> None:
        sender = world.pair.sender("orders")
        (number,) = await sender.schedule(mails("a"), 99_000)
        world.primary.answers["orders"] = HANG
        first = asyncio.ensure_future(sender.send(mails("b")))
        await asyncio.sleep(0)
        with pytest.raises(TimedOut, match="Cancelling messages of 'orders'"):
            await sender.cancel([number], 1.0)
        assert world.now() == 1_000
        await first

    play(scene, **SETTINGS)


def test_message_that_fits_only_without_the_ids_goes_without_them() -> None:
    async def scene(world: World) -> None:
        world.primary.refuses_ids = True
        (mail,) = mails("a")
        await world.pair.sender("orders").send([mail])
        assert world.primary.texts("orders") == ["a"]
        assert mail.send_id is None and mail.message_id is None

    play(scene, **SETTINGS)


def test_message_that_does_not_fit_at_all_is_the_callers() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = Failure(FailureKind.TOO_LARGE)
        with pytest.raises(Failure):
            await world.pair.sender("orders").send(mails("a"))
        assert world.secondary.calls == []

    play(scene, **SETTINGS)


def test_a_sender_that_is_closed_in_a_call_says_nothing_of_its_entity() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"], world.primary.takes_time = AWAY, 1.0
        sender = world.pair.sender("orders")
        call = asyncio.create_task(sender.send(mails("a")))
        await asyncio.sleep(0.5)
        await sender.close()
        with pytest.raises(Refused, match="closed"):
            await call
        assert world.pair.entity("orders").state is State.HEALTHY

    play(scene, failover_interval_ms=0)


def test_a_sender_that_is_closed_in_a_call_says_nothing_of_its_queue() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        world.all_queues(AWAY)
        world.secondary.takes_time = 1.0
        sender = world.pair.sender("orders")
        call = asyncio.create_task(sender.send(mails("a")))
        await asyncio.sleep(0.5)
        await sender.close()
        with pytest.raises(Failure, match="no route"):
            await call
        assert world.pair.status().out_of_rotation == ()

    play(scene, failover_interval_ms=0)


def test_closed_sender_refuses() -> None:
    async def scene(world: World) -> None:
        sender = world.pair.sender("orders")
        await sender.close()
        with pytest.raises(Refused, match="closed"):
            await sender.send(mails("a"))

    play(scene)


class NotedLog(SendLog):  # type: ignore[misc]
    """A send log whose notes are seen at once."""

    noted: list[SentCall]

    def note(self, call: SentCall) -> None:
        self.noted = [*getattr(self, "noted", []), call]


@pytest.mark.parametrize(
    ("answer", "operation", "result", "reason"),
    [
        (None, "send", "ok", None),
        (Failure(FailureKind.MESSAGE, "malformed"), "send", "failed", "malformed"),
        (HANG, "send", "unknown", "no answer in time"),
    ],
)
def test_outcome_is_logged(
    tmp_path: Path,
    answer: Exception | None,
    operation: str,
    result: str,
    reason: str | None,
) -> None:
    async def scene(world: World) -> None:
        log = world.pair.send_log = NotedLog(tmp_path, "north", world.clock)
        if answer is not None:
            world.primary.answers["orders"] = answer
        messages = mails("ab")
        try:
            await world.pair.sender("orders").send(messages)
        except Exception:
            assert answer is not None
        world.pair.send_log = None
        log.close()
        [call] = log.noted
        assert (call.operation, call.result, call.reason) == (operation, result, reason)
        assert call.send_ids == [message.send_id for message in messages]
        assert call.path == "orders"

    play(scene, **{**SETTINGS, "wait_during_failover": False})
