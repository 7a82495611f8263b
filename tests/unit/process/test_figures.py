"""The figures of a server are read without loading anything."""

from unit.entities.world import World

from twinbus.process.figures import ServerFigures


def figures_of(world: World) -> ServerFigures:
    return ServerFigures(
        world.namespaces, world.owners, world.clock, lambda: 2, is_strict=True
    )


async def test_the_process_is_as_the_server_is(world: World) -> None:
    figures = figures_of(world)
    await world.namespace.create_queue("orders", {})
    told = figures.process_figures()
    assert (told.connections, told.is_strict) == (2, True)
    assert told.commits == world.owner.last_batch > 0
    assert told.form in ("plain", "compiled")
    assert not told.is_store_full
    world.owner.refuses_until = world.clock.now() + 1
    assert figures.process_figures().is_store_full


async def test_pings_are_those_of_the_entity(world: World) -> None:
    queue = await world.namespace.create_queue("Orders", {})
    await world.namespace.create_queue("bills", {})
    queue.fragment().ping_count = 3
    figures = figures_of(world)
    assert sorted(figures.entity_names()) == [("", "Orders"), ("", "bills")]
    [orders, bills] = figures.entity_figures([("", "Orders"), ("", "bills")])
    assert (orders.path, orders.kind, orders.pings) == ("Orders", "queue", 3)
    assert (bills.pings, bills.enqueued, bills.messages) == (0, 0, (0, 0, 0, 0, 0))


async def test_an_entity_that_went_meanwhile_has_none(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    figures = figures_of(world)
    paths = figures.entity_names()
    await world.namespace.delete_queue("orders")
    assert figures.entity_figures(paths) == []
