"""The interface between a topic's fragment and the topic.

A topic has a fragment like a queue, with its own sequence numbers, schedule and quota.
A message that becomes active there is not kept: the router puts a copy into every
subscription whose rules match, in the same commit.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from twinbus.broker.changes import ChangeSet
from twinbus.broker.message import Message

if TYPE_CHECKING:
    from twinbus.broker.fragment import Fragment


@mypyc_attr(allow_interpreted_subclasses=True)
class Router:
    """Distributes the messages of one topic."""

    @abstractmethod
    def route(
        self, topic: "Fragment", message: Message, now: int, changes: ChangeSet
    ) -> None:
        """Put copies of the message, which has its number and times, into
        subscriptions."""
