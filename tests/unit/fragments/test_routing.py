"""Routing: keys have their fragment, everything else takes turns by commit."""

import pytest
from unit.fragments.test_partition_key import sent

from twinbus.amqp.types import Symbol
from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment import Fragment
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.fragment_table import FragmentTable
from twinbus.broker.home import Home
from twinbus.broker.message import Message
from twinbus.broker.transaction import Transaction, TransactionLimits
from twinbus.encoding.layout import IN_TRANSFER, SENT_ONCE
from twinbus.errors import FragmentUnavailable, NotAllowed
from twinbus.fragments.fragment_source import FragmentSource
from twinbus.fragments.hashing import fragment_index
from twinbus.fragments.routing import Routing
from twinbus.fragments.transaction_key import fragment_in_transaction

GENERATION = bytes(16)


class Fragments(FragmentSource):
    """Four fragments, each in a store of its own."""

    def __init__(self, **settings: int) -> None:
        super().__init__()
        self.homes = [Home() for _ in range(4)]
        self.known: list[Fragment | None] = []
        for index, home in enumerate(self.homes):
            table = FragmentTable(1, [], home)
            table.admit(GENERATION, FragmentSettings(path="orders", **settings))
            self.known.append(table.create(GENERATION, index, home.changes))
        self.routing = Routing("orders", 4, self)

    def find_fragment(self, index: int) -> Fragment | None:
        return self.known[index]

    def commit(self, index: int) -> None:
        self.homes[index].changes = ChangeSet(self.homes[index])

    def turns(self, count: int) -> list[int]:
        """The fragments of that many messages, each with a commit of its own."""
        found = []
        for _ in range(count):
            found.append(self.routing.route([sent()]).index)
            self.commit(found[-1])
        return found


@pytest.fixture
def fragments() -> Fragments:
    return Fragments()


def test_messages_with_one_key_go_to_one_fragment(fragments: Fragments) -> None:
    for key in ("a", "b", "c", "d", "e"):
        index = fragment_index(key, 4)
        assert fragments.routing.route([sent(key=key)]).index == index
        assert fragments.routing.route([sent(session=key)]).index == index


def test_messages_without_a_key_stay_together_until_the_commit(
    fragments: Fragments,
) -> None:
    route = fragments.routing.route
    assert [route([sent()]).index for _ in range(3)] == [0, 0, 0]
    fragments.commit(0)
    assert [route([sent()]).index for _ in range(3)] == [1, 1, 1]


def test_each_commit_moves_on_to_the_next_fragment(fragments: Fragments) -> None:
    assert fragments.turns(6) == [0, 1, 2, 3, 0, 1]


def test_fragments_that_are_away_are_left_out(fragments: Fragments) -> None:
    fragments.homes[1].is_serving = False
    fragments.known[2] = None
    assert fragments.turns(4) == [0, 3, 0, 3]
    fragments.homes[1].is_serving = True
    assert fragments.turns(3) == [0, 1, 3]


def test_fragment_that_went_away_is_left_at_once(fragments: Fragments) -> None:
    assert fragments.routing.route([sent()]).index == 0
    fragments.homes[0].is_serving = False
    assert fragments.routing.route([sent()]).index == 1


def test_fragment_that_is_committing_is_passed_over(fragments: Fragments) -> None:
    fragments.homes[0].is_committing = True
    assert fragments.turns(3) == [1, 2, 3]
    for home in fragments.homes:
        home.is_committing = True
    assert fragments.turns(3) == [0, 1, 2], "all are busy: they take turns"


def test_store_that_commits_for_long_is_left_for_one_that_is_idle(
    fragments: Fragments,
) -> None:
    fragments.turns(4)
    for home in fragments.homes:
        home.is_committing = True
    route = fragments.routing.route
    shared = [route([sent()]).index for _ in range(4 * 32)]
    assert {index: shared.count(index) for index in range(4)} == dict.fromkeys(
        range(4), 32
    ), "all are busy: they share what waits"
    fragments.homes[2].is_committing = False
    later = [route([sent()]).index for _ in range(100)]
    assert later[-1] == 2 and later.index(2) < 40


def test_store_that_has_refused_is_not_asked_again(fragments: Fragments) -> None:
    refused_by = fragments.homes[:2]
    assert fragments.routing.any_fragment(refused_by).index == 2
    with pytest.raises(FragmentUnavailable, match="No fragment of 'orders'"):
        fragments.routing.any_fragment(fragments.homes)


def test_key_of_a_fragment_that_is_away_is_an_error(fragments: Fragments) -> None:
    index = fragment_index("a", 4)
    fragments.homes[index].is_serving = False
    with pytest.raises(FragmentUnavailable, match=f"Fragment {index} of 'orders'"):
        fragments.routing.route([sent(key="a")])


def test_message_ids_are_keys_where_duplicates_are_detected() -> None:
    fragments = Fragments(duplicate_window_ms=1_000)
    indexes = set()
    for _ in range(8):
        found = fragments.routing.route([sent(message_id="m")])
        fragments.commit(found.index)
        indexes.add(found.index)
    assert len(indexes) == 1


# --- transactions -----------------------------------------------------------------


def in_transaction(
    fragments: Fragments, transaction: Transaction, **message: str
) -> int:
    messages = [sent(**message)]
    found = fragment_in_transaction(transaction, fragments.routing, messages)
    return found.index


def test_transaction_has_one_key(fragments: Fragments) -> None:
    transaction = Transaction(b"1", 0, TransactionLimits())
    index = fragment_index("a", 4)
    assert in_transaction(fragments, transaction, key="a") == index
    assert in_transaction(fragments, transaction, session="a") == index
    with pytest.raises(NotAllowed, match="with another key"):
        in_transaction(fragments, transaction, key="b")


def test_message_without_a_key_is_refused_in_a_transaction(
    fragments: Fragments,
) -> None:
    transaction = Transaction(b"1", 0, TransactionLimits())
    with pytest.raises(NotAllowed, match="without a key to 'orders'"):
        in_transaction(fragments, transaction, message_id="m")


def test_message_id_is_the_key_where_duplicates_are_detected() -> None:
    fragments = Fragments(duplicate_window_ms=1_000)
    transaction = Transaction(b"1", 0, TransactionLimits())
    in_transaction(fragments, transaction, message_id="m")
    with pytest.raises(NotAllowed, match="with another key"):
        in_transaction(fragments, transaction, message_id="n")


def identified(number: int, key: str | None, layout: int) -> Message:
    """A message with a send id, and these bits more."""
    send_id = {Symbol("x-opt-twinbus-send-id"): number.to_bytes(16, "big")}
    message = sent(key=key, annotations=send_id)
    message.layout |= SENT_ONCE | layout
    return message


def test_batch_is_split_by_the_fragments_of_its_ids(fragments: Fragments) -> None:
    messages = [identified(number, None, 0) for number in range(40)]
    parts = fragments.routing.split(messages)
    assert len(parts) == 4
    for part in parts:
        keys = [fragments.routing.key_of([message]) for message in part]
        assert len({fragment_index(str(key), 4) for key in keys}) == 1
    without = [*messages, sent()]
    assert fragments.routing.split(without) == [without]


def test_keys_of_a_batch_may_differ_in_a_transfer_queue_only(
    fragments: Fragments,
) -> None:
    keys = ["a", "b", "a"]
    direct = [identified(number, key, 0) for number, key in enumerate(keys)]
    with pytest.raises(NotAllowed, match="different keys"):
        fragments.routing.split(direct)
    diverted = [identified(number, key, IN_TRANSFER) for number, key in enumerate(keys)]
    first, second, third = diverted
    assert fragments.routing.split(diverted) == [[first, third], [second]]
