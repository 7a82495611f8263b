"""Receivers get fair shares in turn, within their capacity."""

from twinbus.broker.dispatch import Dispatch

from .world import NOW, Client, Place


def joined(place: Place, *clients: Client) -> Dispatch:
    dispatch = Dispatch(place.queue, None, bytes)
    for client in clients:
        dispatch.join(client)
        dispatch.offer_capacity(client)
    return dispatch


def send(place: Place, count: int) -> None:
    place.send(*[b"%03d" % number for number in range(count)])


def test_one_receiver_gets_all_it_can_take_in_order(place: Place) -> None:
    client = Client(3)
    dispatch = joined(place, client)
    send(place, 5)
    dispatch.deliver(NOW, place.changes)
    assert client.got == [b"000", b"001", b"002"]
    assert len(place.queue.locks) == 3


def test_receivers_share_what_is_there(place: Place) -> None:
    clients = [Client(100) for _ in range(4)]
    dispatch = joined(place, *clients)
    send(place, 40)
    dispatch.deliver(NOW, place.changes)
    assert [len(client.got) for client in clients] == [10, 10, 10, 10]


def test_what_one_cannot_take_goes_to_the_others(place: Place) -> None:
    clients = [Client(100), Client(2), Client(100)]
    dispatch = joined(place, *clients)
    send(place, 12)
    dispatch.deliver(NOW, place.changes)
    assert [len(client.got) for client in clients] == [6, 2, 4]


def test_receiver_without_capacity_waits_until_it_says_so(place: Place) -> None:
    client = Client(0)
    dispatch = joined(place, client)
    send(place, 1)
    dispatch.deliver(NOW, place.changes)
    client.wanted = 1
    dispatch.deliver(NOW, place.changes)
    assert client.got == []
    dispatch.offer_capacity(client)
    dispatch.offer_capacity(client)
    dispatch.deliver(NOW, place.changes)
    assert client.got == [b"000"]


def test_receiver_that_left_gets_nothing(place: Place) -> None:
    client, other = Client(1), Client(1)
    dispatch = joined(place, client, other)
    dispatch.leave(client)
    dispatch.leave(client)
    dispatch.offer_capacity(client)
    send(place, 2)
    dispatch.deliver(NOW, place.changes)
    assert (client.got, other.got) == ([], [b"000"])
    assert dispatch.has_receivers()
    dispatch.leave(other)
    assert not dispatch.has_receivers()


def test_window_is_wide_while_somebody_receives(place: Place) -> None:
    client = Client()
    dispatch = joined(place, client)
    assert place.queue.window.is_wide()
    dispatch.leave(client)
    assert not place.queue.window.is_wide()


def test_expired_messages_are_nobodys_share(place: Place) -> None:
    client = Client(5)
    dispatch = joined(place, client)
    place.send(b"old", ttl_ms=10)
    dispatch.deliver(NOW + 10, place.changes)
    assert client.got == []
    assert place.queue.active_count == 0


def test_disk_is_asked_only_when_somebody_waits(place: Place) -> None:
    send(place, 20)
    dispatch = Dispatch(place.queue, None, bytes)
    client = Client(20)
    dispatch.join(client)
    assert not dispatch.wants_refill()
    dispatch.offer_capacity(client)
    dispatch.deliver(NOW, place.changes)
    assert len(client.got) == 16
    assert dispatch.wants_refill()
    place.refill()
    dispatch.deliver(NOW, place.changes)
    assert len(client.got) == 20
    assert not dispatch.wants_refill()


# --- receive and delete ---------------------------------------------------------


def test_removed_messages_are_promised_until_the_commit(place: Place) -> None:
    client = Client(2, peek_lock=False)
    dispatch = joined(place, client)
    send(place, 3)
    dispatch.deliver(NOW, place.changes)
    assert (client.got, client.promised_count) == ([], 2)
    assert dispatch.has_promises()
    [(receiver, messages)] = dispatch.take_promises()
    assert receiver is client
    assert [message.raw for message in messages] == [b"000", b"001"]
    assert not dispatch.has_promises()
    assert place.queue.active_count == 1


def test_promises_count_against_the_capacity(place: Place) -> None:
    client = Client(2, peek_lock=False)
    dispatch = joined(place, client)
    send(place, 5)
    for _ in range(3):
        dispatch.offer_capacity(client)
        dispatch.deliver(NOW, place.changes)
    assert client.promised_count == 2


def test_promises_of_a_failed_commit_are_forgotten(place: Place) -> None:
    client = Client(2, peek_lock=False)
    dispatch = joined(place, client)
    send(place, 2)
    dispatch.deliver(NOW, place.changes)
    dispatch.forget_promises()
    assert (client.promised_count, dispatch.take_promises()) == (0, [])


def test_receiver_whose_promises_were_broken_is_served_again(place: Place) -> None:
    client = Client(2, peek_lock=False)
    dispatch = joined(place, client)
    send(place, 2)
    dispatch.deliver(NOW, place.changes)
    dispatch.forget_promises()
    place.fail()
    place.refill()
    dispatch.ask_everybody()
    dispatch.deliver(NOW, place.changes)
    assert client.promised_count == 2


def test_expired_messages_are_not_promised(place: Place) -> None:
    client = Client(2, peek_lock=False)
    dispatch = joined(place, client)
    place.send(b"old", ttl_ms=1)
    dispatch.deliver(NOW + 1, place.changes)
    assert (client.promised_count, dispatch.has_promises()) == (0, False)


def test_only_receivers_without_promises_are_served(place: Place) -> None:
    waiting, promised = Client(), Client(1, peek_lock=False)
    dispatch = joined(place, waiting, promised)
    send(place, 1)
    dispatch.deliver(NOW, place.changes)
    dispatch.served()
    assert (waiting.served_count, promised.served_count) == (1, 0)
