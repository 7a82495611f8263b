"""Messages that receivers get after the commit that removes them.

Receive-and-delete is the other way round: a message is removed first, and goes out
when that is durable. Until then it is promised.
"""

from collections.abc import Iterable

from twinbus.broker.dispatch import Dispatch
from twinbus.broker.message import Message
from twinbus.broker.receiver import Receiver

Promised = tuple[Receiver, list[Message]]


class Promises:
    """What the open change set of a store promises."""

    def __init__(self, dispatches: dict[int, Dispatch]) -> None:
        # By fragment number. One without receivers is removed with its last promise.
        self._dispatches = dispatches
        self._promising: set[Dispatch] = set()

    def add(self, dispatch: Dispatch) -> None:
        """It has promised something."""
        self._promising.add(dispatch)

    def take(self) -> list[Promised]:
        """All of them, for the commit that begins."""
        promises: list[Promised] = []
        for dispatch in self._promising:
            promises += dispatch.take_promises()
            if dispatch.session is None and not dispatch.has_receivers():
                self._dispatches.pop(dispatch.fragment.number, None)
        self._promising.clear()
        return promises

    def forget(self) -> None:
        """The open change set is refused."""
        for dispatch in self._promising:
            dispatch.forget_promises()
        self._promising.clear()


def keep(promises: Iterable[Promised]) -> None:
    """The commit happened."""
    for receiver, messages in promises:
        receiver.promised_count -= len(messages)
        receiver.deliver_removed(messages)
        if receiver.promised_count == 0:
            receiver.served()


def break_off(promises: Iterable[Promised]) -> None:
    """Nothing of the commit happened, or nobody knows: then they may be lost."""
    for receiver, messages in promises:
        receiver.promised_count -= len(messages)
