"""What administrators are told of fragments, also while a store is away."""

from unit.entities.world import World

from twinbus.operations.fragment_states import fragment_states

from .spread import owner_at, take_away
from .test_peeking import fill


async def test_every_fragment_is_listed_with_its_bounds(spread: World) -> None:
    queue = await spread.namespace.create_queue("orders", {"enable_partitioning": True})
    sent = await fill(spread, 2, 0, 0, 1)
    states = await fragment_states(queue)
    assert [one.index for one in states] == [0, 1, 2, 3]
    assert [one.first for one in states] == [sent[0], None, None, sent[2]]
    assert [one.next for one in states] == [
        3,
        (1 << 48) + 1,
        (2 << 48) + 1,
        sent[2] + 1,
    ]
    assert [one.active_count for one in states] == [2, 0, 0, 1]
    assert {one.state for one in states} == {"serving"}
    assert [one.store for one in states] == [u.hex() for u in queue.record.placement]


async def test_fragment_that_is_away_is_listed_as_such(several: World) -> None:
    queue = await several.namespace.create_queue(
        "orders", {"enable_partitioning": True}
    )
    await fill(several, 1, 1, 1, 1)
    await take_away(several, owner_at(several, 1))
    states = await fragment_states(queue)
    assert [one.state for one in states].count("unavailable") == 1
    assert (states[1].first, states[1].active_count) == (None, 1)
    assert not queue.is_available()
