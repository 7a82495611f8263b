"""Rules of topics are read before the first message asks for them.

A stored rule is a text, and to parse it takes about a millisecond. Of 2,000 rules the
first message to a topic would keep everybody waiting for seconds. So they are read a
few at a time, in turns, from the moment they are known; a message that comes before
that is done reads the rest.
"""

from typing import Final

from twinbus.owner.turns import Turns
from twinbus.topics.topic import TopicRouter

_RULES_AT_A_TIME: Final = 4

_FEW: Final = 50
"""So many the first message may read itself: topics that nobody uses stay unread."""


class UnreadRules:
    """Topics with rules that nobody has read yet."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._routers: dict[TopicRouter, None] = {}

    def expect(self, router: TopicRouter) -> None:
        """The topic has got rules from the store."""
        if router.unread_count <= _FEW:
            return
        if not self._routers:
            self._turns.wait(self._go_on)
        self._routers[router] = None

    def _go_on(self) -> None:
        while self._routers and not self._turns.is_over():
            router = next(iter(self._routers))
            if router.read_some(_RULES_AT_A_TIME):
                del self._routers[router]
        if self._routers:
            self._turns.wait(self._go_on)
