"""The loop over frequent events stops where order matters."""

from twinbus.amqp.events import Event, LinkFlow, MessageReceived
from twinbus.links.deliveries import apply_deliveries

from .world import BODY, NOW, World


def test_sends_are_applied_up_to_the_first_other_event(world: World) -> None:
    world.sender()
    bus_link = world.bus_session.links[0]
    send = MessageReceived(bus_link, 0, b"tag", 0, True, None, BODY, False)
    events: list[Event] = [send, send, LinkFlow(bus_link), send]
    assert apply_deliveries(events, 0, world.coordinator, world.output, NOW) == 2
    assert world.fragment.active_count == 2
    assert apply_deliveries(events, 3, world.coordinator, world.output, NOW) == 4
    assert world.fragment.active_count == 3


def test_message_for_another_kind_of_link_is_left_to_the_caller(world: World) -> None:
    world.sender()
    world.bus_session.links[0].context = None
    request = MessageReceived(
        world.bus_session.links[0], 0, b"tag", 0, True, None, BODY, False
    )
    assert apply_deliveries([request], 0, world.coordinator, world.output, NOW) == 0
