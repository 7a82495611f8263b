"""Clients of a simulated cluster that make subscriptions, and send to their topics.

Each request goes by way of any broker. What is sent after a subscription was made must
reach it, once, however its store moved meanwhile.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from simulator.broker_audit import SentMessage
from simulator.broker_entities import PROPERTIES
from simulator.broker_roaming import RoamingClient
from simulator.broker_visit import (
    FindBroker,
    Troubles,
    Visit,
    check_error,
    now,
    payload_of,
    visited,
)
from simulator.sighting import Violation
from twinbus.client.errors import NotAccepted
from twinbus.client.management import ask_namespace

TOPICS: Final = {"news": {}, "spread-news": {"enable_partitioning": True}}
"""With their properties."""

_FIRST_NUMBER: Final = 50_000_000
"""Of messages; those of other clients are below."""

_MOST: Final = 12
"""Subscriptions of a world."""

_PATIENCES: Final = (5.0, 15.0, 40.0)
_PAUSES: Final = (0.01, 0.3)


@dataclass(slots=True, kw_only=True, eq=False)
class MadeSubscription:
    """A subscription that was asked for."""

    path: str
    # When its creation was confirmed; None: it may exist or not.
    made_at: float | None = None

    @property
    def topic(self) -> str:
        return self.path.partition("/")[0]


class SubscriptionAudit:
    """Of all topics of a world."""

    def __init__(self) -> None:
        self._made: list[MadeSubscription] = []
        self._sent: list[SentMessage] = []

    @property
    def is_full(self) -> bool:
        return len(self._made) >= _MOST

    def new_subscription(self, topic: str) -> MadeSubscription:
        path = f"{topic}/Subscriptions/s-{len(self._made)}"
        self._made.append(MadeSubscription(path=path))
        return self._made[-1]

    def new_message(self, topic: str) -> SentMessage:
        number = _FIRST_NUMBER + len(self._sent)
        self._sent.append(SentMessage(number=number, path=topic, asked_at=now()))
        return self._sent[-1]

    def concluded(self, taken: Mapping[str, Sequence[int]]) -> None:
        """Raises Violation if a message is missing where it must be, or came twice."""
        for path, numbers in taken.items():
            if len(set(numbers)) < len(numbers):
                raise Violation(f"'{path}' has got a message twice")
        for one in self._made:
            if one.made_at is None:
                continue
            if one.path not in taken:
                raise Violation(f"'{one.path}' is gone")
            if missing := self._due(one) - set(taken[one.path]):
                raise Violation(f"'{one.path}' has not got {sorted(missing)[:5]}")

    def _due(self, to: MadeSubscription) -> set[int]:
        assert to.made_at is not None
        return {
            sent.number
            for sent in self._sent
            if sent.is_accepted
            and sent.path == to.topic
            and sent.asked_at >= to.made_at
        }


class Subscriber(RoamingClient):
    """One client."""

    step_counts = (1, 10)

    def __init__(
        self,
        name: str,
        random: Random,
        audit: SubscriptionAudit,
        find: FindBroker,
        is_quiet: Callable[[], bool],
        tell: Callable[[str], None],
        fail: Callable[[AssertionError], None],
    ) -> None:
        super().__init__(name, random, find, fail, random.choice(_PATIENCES))
        self._audit = audit
        # Nothing may be asked for that must be committed.
        self._is_quiet = is_quiet
        self._tell = tell

    def _pause(self) -> float:
        return self._random.uniform(*_PAUSES)

    async def _step(self, visit: Visit) -> None:
        if self._is_quiet():
            return
        topic = self._random.choice(list(TOPICS))
        if self._random.random() < 0.3 and not self._audit.is_full:
            await self._subscribe(visit, topic)
            # Whoever gets the next message may not have heard of it.
            if self._random.random() < 0.5:
                await self._send_elsewhere(topic)
        await self._send(visit, topic)

    async def _subscribe(self, visit: Visit, topic: str) -> None:
        asked = self._audit.new_subscription(topic)
        arguments = {"path": asked.path, "properties": json.dumps(PROPERTIES)}
        try:
            async with asyncio.timeout(self._patience):
                await ask_namespace(visit.connection, "create-subscription", arguments)
        except Troubles as error:
            self._tell(f"{asked.path} is unknown: {error!r:.60}")
            if not isinstance(error, OSError | TimeoutError):
                check_error(error, asked.path)
            raise
        self._tell(f"{asked.path} is made")
        asked.made_at = now()

    async def _send_elsewhere(self, topic: str) -> None:
        found = self._find(self._random)
        if found is None:
            return
        visit = await visited(found, self._patience)
        try:
            await self._send(visit, topic)
        finally:
            visit.connection.abort()

    async def _send(self, visit: Visit, topic: str) -> None:
        visit.forget_lost()
        sender = await visit.sender(topic)
        sent = self._audit.new_message(topic)
        try:
            async with asyncio.timeout(self._patience):
                await sender.send(payload_of(sent))
        except NotAccepted as error:
            check_error(error, topic)
            self._tell(f"{sent.number} is refused")
        except Troubles as error:
            self._tell(f"{sent.number} is unknown: {type(error).__name__}")
            raise
        else:
            sent.is_accepted = True
            self._tell(f"{sent.number} is accepted by {topic}")
