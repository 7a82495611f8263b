"""The detour of messages whose fragment cannot be reached: the outbox of another store.

A link that is told FragmentUnavailable for what it sends offers it to the detour of the
entity. If that takes it, the link is told when it is durable there, as usual. The
message appears in its entity when the store of the fragment is back.
"""

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class StoreDetour:
    """Takes messages for fragments of one entity."""

    @abstractmethod
    def send(
        self,
        messages: list[Message],
        listener: CommitListener | None,
        item: int,
        is_returned: bool = False,
    ) -> None:
        """Take all messages of a delivery. The listener gets the outcome under `item`.
        `is_returned`: the commit that had them failed. They come before what the store
        did not even take.

        Raises FragmentUnavailable if such messages take no detour, ServerBusy if there
        is no room for them or the store is away for too long, NotAllowed,
        EntityDisabled."""
