"""Many rules are parsed ahead, turn by turn; few wait for a message."""

import asyncio

from unit.owner.test_turns import Watch

from twinbus.broker.changes import StoredRule
from twinbus.entities.unread_rules import UnreadRules
from twinbus.owner.turns import Turns
from twinbus.rules.rule import Rule, default_rule
from twinbus.topics.topic import TopicRouter


class Reading:
    """Takes two milliseconds for each rule."""

    def __init__(self) -> None:
        self.watch = Watch()
        self.names: list[str] = []
        self.router = TopicRouter(bytes, self.read)
        self.unread = UnreadRules(Turns(self.watch))

    def read(self, stored: StoredRule) -> Rule:
        self.watch.at += 2
        self.names.append(stored.name)
        rule = default_rule(0)
        return Rule(
            name=stored.name,
            filter=rule.filter,
            action=rule.action,
            created_at=rule.created_at,
        )

    def restore(self, count: int) -> None:
        self.router.restore(
            "s",
            [
                StoredRule(
                    fragment_number=1, name=f"r{number}", definition="", created_at=0
                )
                for number in range(count)
            ],
        )
        self.unread.expect(self.router)


async def test_many_are_read_in_order_and_others_have_their_turns() -> None:
    reading = Reading()
    reading.restore(60)
    shares = []
    while len(reading.names) < 60:
        before = len(reading.names)
        await asyncio.sleep(0)
        shares.append(len(reading.names) - before)
    assert reading.names == [f"r{number}" for number in range(60)]
    assert max(shares) <= 4
    assert reading.router.unread_count == 0


async def test_few_wait_for_whoever_asks() -> None:
    reading = Reading()
    reading.restore(50)
    for _ in range(10):
        await asyncio.sleep(0)
    assert reading.names == []
    assert len(reading.router.rules().rules("s")) == 50


async def test_a_message_that_comes_first_reads_the_rest() -> None:
    reading = Reading()
    reading.restore(60)
    await asyncio.sleep(0)
    reading.router.rules()
    assert len(reading.names) == 60
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(reading.names) == 60


async def test_rules_of_a_subscription_that_is_gone_are_not_read() -> None:
    reading = Reading()
    reading.restore(60)
    reading.router.unsubscribe("s")
    for _ in range(10):
        await asyncio.sleep(0)
    assert (reading.names, reading.router.unread_count) == ([], 0)
