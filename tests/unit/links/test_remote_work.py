"""Work of a transaction on fragments that other brokers have."""

import pytest
from unit.fragments.test_destination import Spread

from twinbus.broker.changes import ChangeSet
from twinbus.broker.home import Home
from twinbus.broker.transaction import Transaction, TransactionLimits
from twinbus.encoding.envelope import decode_envelope
from twinbus.encoding.incoming import read_message
from twinbus.errors import FragmentUnavailable, NotAllowed, QuotaExceeded
from twinbus.links.remote_work import RemoteStep, TransactionalRemoteSend

from .world import BODY, NOW


def entropy(count: int) -> bytes:
    return bytes(count)


def remote_send() -> TransactionalRemoteSend:
    fragments = Spread(is_shared=True)
    fragments.homes[1].message_ids = Home(entropy).message_ids
    message = read_message(BODY, 0, 1024)
    return TransactionalRemoteSend(fragments.routing.destination_at(1), [message])


def test_message_is_put_into_the_outbox_of_the_store_that_commits() -> None:
    work, home = remote_send(), Home(entropy)
    work.check_travel(home, NOW)
    work.apply_from(home)
    changes: ChangeSet = home.changes
    [entry] = changes.outbox_added
    assert entry.target.startswith((bytes([1]) * 16).hex())


def test_full_target_refuses_the_commit() -> None:
    work, home = remote_send(), Home(entropy)
    work.apply_from(home)
    [entry] = home.changes.outbox_added
    home.outbox.note_full(entry.target, NOW)
    with pytest.raises(QuotaExceeded):
        work.check_travel(home, NOW)


def test_message_is_shipped_as_an_envelope() -> None:
    kind, path, address, envelopes = remote_send().shipment()
    assert (kind, path) == ("send", "orders")
    assert str(address).endswith("/1")
    assert isinstance(envelopes, list)
    [envelope] = envelopes
    assert decode_envelope(envelope).raw.endswith(BODY)


def test_store_that_came_here_meanwhile_refuses_the_commit() -> None:
    with pytest.raises(FragmentUnavailable, match="moved"):
        remote_send().check(NOW)
    step = RemoteStep(Home(), "orders", ["settle"], 0)
    with pytest.raises(FragmentUnavailable, match="moved"):
        step.check(NOW)


def test_home_of_sends_is_one_that_is_served_here() -> None:
    transaction = Transaction(b"id", NOW, TransactionLimits())
    work = remote_send()
    transaction.enlist(work)
    assert transaction.home is work.home
    here = RemoteStep(Home(), "here", [], 0)
    here.can_travel = True
    transaction.enlist(here)
    assert transaction.home is here.home


def test_steps_of_two_stores_are_refused_by_name() -> None:
    transaction = Transaction(b"id", NOW, TransactionLimits())
    transaction.enlist(RemoteStep(Home(), "one", [], 0))
    with pytest.raises(NotAllowed, match="'two' is in another store than 'one'"):
        transaction.enlist(RemoteStep(Home(), "two", [], 0))
