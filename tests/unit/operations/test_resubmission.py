"""Dead letters become messages again: each in one commit, of the same entity."""

import pytest
from unit.entities.world import World

from twinbus.amqp.messaging import Data, Header, decode_message, encode_message
from twinbus.amqp.messaging import Message as Sent
from twinbus.auth.claims import Claim
from twinbus.broker import settlement
from twinbus.broker.fragment import DEAD_LETTER, Fragment
from twinbus.broker.message_lock import ENTROPY_BYTES
from twinbus.encoding.incoming import read_message
from twinbus.errors import FragmentUnavailable, NotAllowed, UnauthorizedAccess
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.peeking import peek
from twinbus.operations.received_message import ReceivedMessage
from twinbus.operations.resubmission import resubmit
from twinbus.operations.sending import send
from twinbus.owner.store_owner import owner_of

from .callers import LimitedCaller, opened
from .spread import encoded, fragments, owner_at, take_away
from .test_peeking import fill

PARTITIONED = {"enable_partitioning": True}
NOW = 1 << 60


async def bury(world: World, fragment: Fragment) -> None:
    """Dead-letter all active messages."""
    owner, now = owner_of(fragment), world.clock.now()
    await owner.durable()
    entropy = bytes(ENTROPY_BYTES * 100)
    for lock in fragment.lock(100, 0, now, entropy, owner.changes):
        settlement.dead_letter(
            fragment, lock, "Bad", "very", None, 0, now, owner.changes
        )
    await owner.durable()


def dead(world: World, path: str = "orders") -> EntityHandle:
    return opened(world, path, DEAD_LETTER)


def body_of(item: ReceivedMessage) -> bytes:
    body = decode_message(item.encoded).body
    assert isinstance(body, Data)
    return body.chunks[0]


async def test_they_come_back_as_new_messages(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    await send(opened(world), [encoded("a")])
    await send(opened(world), [encoded("b")])
    [main] = fragments(world)
    await bury(world, main)
    assert main.active_count == 0
    letters = dead(world).part(0).fragment
    before = [one.uid for one in letters.window.ready_messages()]
    assert await resubmit(dead(world), 10, NOW) == 2
    # The log tells of the same messages.
    assert [one.uid for one in main.window.ready_messages()] == before
    assert all(before) and len(before) == 2
    found = await peek(opened(world), 0, 10)
    assert [(one.sequence_number, body_of(one)) for one in found] == [
        (3, b"a"),
        (4, b"b"),
    ]
    for one in found:
        message = decode_message(one.encoded)
        assert message.header is not None and not message.header.delivery_count
        assert "DeadLetterReason" not in (message.application_properties or {})
    assert await peek(dead(world), 0, 10) == []
    assert await resubmit(dead(world), 10, NOW) == 0


async def test_a_time_to_live_begins_again(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    sent = encode_message(Sent(header=Header(ttl=5_000), body=Data((b"x",))))
    await send(opened(world), [sent])
    [main] = fragments(world)
    await bury(world, main)
    world.clock.advance(60_000)
    assert await resubmit(dead(world), 10, NOW) == 1
    [message] = await owner_of(main).store.read_active(main.number, 0, 9, 1 << 20)
    assert (message.ttl_ms, message.expires_at) == (5_000, world.clock.now() + 5_000)


async def test_those_that_came_later_stay(world: World) -> None:
    """Or what fails again at once would be resubmitted for ever."""
    await world.namespace.create_queue("orders", {})
    [main] = fragments(world)
    await send(opened(world), [encoded("a")])
    await bury(world, main)
    before = world.clock.now()
    world.clock.advance(1_000)
    await send(opened(world), [encoded("b")])
    await bury(world, main)
    assert await resubmit(dead(world), 10, before) == 1
    assert [body_of(one) for one in await peek(dead(world), 0, 9)] == [b"b"]


async def test_some_are_chosen_by_number(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    [main] = fragments(world)
    for body in "abcd":
        await send(opened(world), [encoded(body)])
    await bury(world, main)
    numbers = [one.sequence_number for one in await peek(dead(world), 0, 9)]
    chosen = [numbers[2], numbers[0], 999, numbers[0]]
    assert await resubmit(dead(world), 10, NOW, chosen) == 2
    assert [body_of(one) for one in await peek(opened(world), 0, 9)] == [b"a", b"c"]
    assert await resubmit(dead(world), 1, NOW, numbers) == 1


async def test_a_subscription_gets_its_own_back_and_no_other_does(world: World) -> None:
    await world.namespace.create_topic("events", {})
    paths = []
    for name in ("one", "two"):
        await world.namespace.create_subscription("events", name, {})
        paths.append(f"events/Subscriptions/{name}")
    await send(opened(world, "events"), [encoded("a")])
    [main] = fragments(world, paths[0])
    await bury(world, main)
    assert await resubmit(dead(world, paths[0]), 9, NOW) == 1
    for path in paths:
        assert [body_of(one) for one in await peek(opened(world, path), 0, 9)] == [b"a"]


async def test_what_a_receiver_holds_stays(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    [main] = fragments(world)
    for body in "ab":
        await send(opened(world), [encoded(body)])
    await bury(world, main)
    letters = dead(world).part(0).fragment
    owner = owner_of(letters)
    letters.lock(1, 0, world.clock.now(), bytes(ENTROPY_BYTES), owner.changes)
    assert await resubmit(dead(world), 10, NOW) == 1
    assert [body_of(one) for one in await peek(dead(world), 0, 9)] == [b"a"]


async def test_session_is_kept_and_one_without_stays(world: World) -> None:
    await world.namespace.create_queue("orders", {"requires_session": True})
    [main] = fragments(world)
    await send(opened(world), [encoded("a", session_id="s")])
    owner = owner_of(main)
    await owner.durable()
    stray = read_message(encoded("stray"))
    main.reject(stray, "Session ID is null.", "", world.clock.now(), owner.changes)
    [message] = await owner.store.read_active(main.number, 0, 9, 1 << 20)
    main.move_to_dead_letters(message, "r", "d", world.clock.now(), owner.changes)
    await owner.durable()
    assert await resubmit(dead(world), 10, NOW) == 1
    [again] = await owner.store.read_active(main.number, 0, 9, 1 << 20)
    assert again.session_id == "s"
    assert [body_of(one) for one in await peek(dead(world), 0, 9)] == [b"stray"]


async def test_every_fragment_keeps_its_own(spread: World) -> None:
    await spread.namespace.create_queue("orders", PARTITIONED)
    await fill(spread, 2, 2, 2, 2)
    for fragment in fragments(spread):
        await bury(spread, fragment)
    assert await resubmit(dead(spread), 5, NOW) == 5
    assert [one.active_count for one in fragments(spread)] == [2, 2, 1, 0]
    left = [one.sequence_number for one in await peek(dead(spread), 0, 9)]
    assert await resubmit(dead(spread), 9, NOW, left[1:2]) == 1
    assert [one.active_count for one in fragments(spread)] == [2, 2, 1, 1]


async def test_nothing_is_moved_while_a_fragment_is_away(several: World) -> None:
    await several.namespace.create_queue("orders", PARTITIONED)
    await fill(several, 1, 1, 1, 1)
    for fragment in fragments(several):
        await bury(several, fragment)
    await take_away(several, owner_at(several, 2))
    with pytest.raises(FragmentUnavailable, match="Fragment 2"):
        await resubmit(dead(several), 9, NOW)
    assert [one.active_count for one in fragments(several)] == [0, 0, 0, 0]


async def test_only_dead_letters_can_be_resubmitted(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    with pytest.raises(NotAllowed, match="not a dead-letter queue"):
        await resubmit(opened(world), 9, NOW)


@pytest.mark.parametrize("claim", [Claim.LISTEN, Claim.SEND])
async def test_both_claims_are_needed(world: World, claim: Claim) -> None:
    await world.namespace.create_queue("orders", {})
    caller = LimitedCaller(claim)
    with pytest.raises(UnauthorizedAccess):
        await resubmit(opened(world, sub_queue=DEAD_LETTER, caller=caller), 9, NOW)
