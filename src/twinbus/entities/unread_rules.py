"""Parses stored rules of topics before the first message needs them.

A stored rule is a text, and parsing it takes about a millisecond. With 2,000 rules the
first message to a topic would block the process for seconds. So rules are parsed a few
at a time, in turns, after they are loaded. A message that arrives earlier parses the
rest.
"""

from typing import Final

from twinbus.owner.turns import Turns
from twinbus.topics.topic import TopicRouter

_RULES_AT_A_TIME: Final = 4

_FEW: Final = 50
"""Up to this number the first message parses them, so unused topics cost nothing."""


class UnreadRules:
    """Topics with rules that are not parsed yet."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._routers: dict[TopicRouter, None] = {}

    def expect(self, router: TopicRouter) -> None:
        """Parse the rules that the topic got from the store."""
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
