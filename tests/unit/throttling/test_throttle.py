"""A2: what is measured once per tick is refused where senders and requests look."""

from collections.abc import AsyncIterator

import pytest
from unit.entities.world import World, message

from twinbus.broker.fragment import Fragment
from twinbus.errors import STORE_IS_FULL, STORE_TROUBLE, ServerBusy
from twinbus.links.sending import check_room
from twinbus.owner.commit_meter import CommitMeter
from twinbus.throttling.thresholds import Thresholds
from twinbus.throttling.throttle import Throttle


class Stores:
    """Two stores of one server, a queue in each, and the server's throttle."""

    def __init__(self, slow: World, other: World) -> None:
        self.slow, self.other = slow, other

    async def start(self) -> None:
        for world in (self.slow, self.other):
            await world.start()
            await world.namespace.create_queue("orders", {})

    async def stop(self) -> None:
        for world in (self.slow, self.other):
            await world.stop()

    def throttle(self, thresholds: Thresholds) -> Throttle:
        owners = [self.slow.owner, self.other.owner]
        throttle = Throttle(thresholds, owners, "space", self.slow.clock)
        for owner in owners:
            owner.health.meter = CommitMeter(throttle.spent)
        return throttle

    def pass_time(self, milliseconds: int, throttle: Throttle) -> None:
        self.slow.clock.advance(milliseconds)
        self.other.clock.advance(milliseconds)
        throttle.tick()


@pytest.fixture
async def stores() -> AsyncIterator[Stores]:
    made = Stores(World(), World())
    await made.start()
    yield made
    await made.stop()


def refusal(world: World) -> str | None:
    """What a sender to the queue is told."""
    fragment = orders(world)
    try:
        check_room(fragment, 10, world.clock.now())
    except ServerBusy as error:
        assert error.entity_path == "orders"
        return error.text
    return None


def orders(world: World) -> Fragment:
    return world.namespace.entity("orders").fragment()


async def send(world: World, count: int = 1) -> None:
    for _ in range(count):
        now = world.clock.now()
        orders(world).enqueue(message(), 1, now, world.owner.changes)
    await world.owner.durable()


async def test_a2_slow_store_refuses_and_the_other_does_not(stores: Stores) -> None:
    throttle = stores.throttle(Thresholds(commit_ms=1000))
    meter = stores.slow.owner.health.meter
    assert meter is not None
    meter.begin(stores.slow.clock.monotonic())
    stores.pass_time(1500, throttle)
    text = refusal(stores.slow)
    assert text is not None
    assert "takes 1500 ms" in text
    assert STORE_TROUBLE not in text, "a paired sender waits, and does not fail over"
    assert refusal(stores.other) is None
    throttle.check("orders")
    meter.end(stores.slow.owner.changes, stores.slow.clock.monotonic(), is_done=True)
    stores.pass_time(6000, throttle)
    assert refusal(stores.slow) is None


async def test_a2_used_up_credits_refuse_all_requests(stores: Stores) -> None:
    throttle = stores.throttle(Thresholds(operations_per_second=10, burst=5))
    await send(stores.slow, 4)
    assert refusal(stores.slow) is None
    await send(stores.slow, 3)
    for world in (stores.slow, stores.other):
        assert "10 per second, and 5 at once" in str(refusal(world))
    with pytest.raises(ServerBusy, match="used up its operations"):
        throttle.check("orders")
    stores.pass_time(300, throttle)
    assert refusal(stores.slow) is None
    throttle.check("orders")


async def test_full_store_is_named_before_a_slow_one(stores: Stores) -> None:
    throttle = stores.throttle(Thresholds(operations_per_second=10, burst=1))
    stores.slow.store.room_bytes = 0
    await send(stores.slow)
    await stores.slow.settled()
    throttle.spent(100)
    assert refusal(stores.slow) == STORE_IS_FULL
    assert refusal(stores.other) != STORE_IS_FULL


async def test_nothing_is_refused_without_thresholds(stores: Stores) -> None:
    throttle = stores.throttle(Thresholds())
    await send(stores.slow, 100)
    stores.pass_time(2000, throttle)
    assert refusal(stores.slow) is None
    assert throttle.reason is None
