"""The key of a transaction that sends to partitioned entities.

A transaction is one commit in one store. So each message that it sends to a partitioned
entity needs a key, and all have the same: then all are in the same fragment. The id of
a message is its key where duplicates are detected; a send id is none.
"""

from twinbus.broker.fragment import Fragment
from twinbus.broker.message import Message
from twinbus.broker.transaction import Transaction
from twinbus.errors import FragmentUnavailable, NotAllowed
from twinbus.fragments.routing import Routing


def index_in_transaction(
    transaction: Transaction, routing: Routing, messages: list[Message]
) -> int:
    """The fragment for messages that a transaction sends. Raises NotAllowed if they
    have no key, or another than those before."""
    key = routing.own_key_of(messages)
    if key is None:
        raise NotAllowed(
            f"A transaction sends a message without a key to '{routing.path}', which "
            "is partitioned. Set its session id or its partition key.",
            entity_path=routing.path,
        )
    transaction.use_key(key, routing.path)
    return routing.index_of(key)


def fragment_in_transaction(
    transaction: Transaction, routing: Routing, messages: list[Message]
) -> Fragment:
    """The same, if it can be reached here. Raises also FragmentUnavailable."""
    index = index_in_transaction(transaction, routing, messages)
    fragment = routing.available(index)
    if not fragment.is_reachable():
        raise FragmentUnavailable.numbered(index, routing.path)
    return fragment
