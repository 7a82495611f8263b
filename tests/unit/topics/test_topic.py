"""The router of a topic on a store in memory: copies, shared bodies, dead letters."""

from typing import Any

import pytest
from unit.broker.world import ACTOR, NOW, run

from twinbus.amqp.messaging import Data, Properties, encode_message
from twinbus.amqp.messaging import Message as AmqpMessage
from twinbus.broker.changes import ChangeSet, StoredRule
from twinbus.broker.fragment import DEAD_LETTER, Fragment
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.fragment_table import FragmentTable
from twinbus.broker.message import Message
from twinbus.encoding.incoming import read_message
from twinbus.errors import QuotaExceeded
from twinbus.rules.rule import Rule
from twinbus.rules.sql.rule_checks import check_rule, sql_action, sql_filter
from twinbus.store.memory import MemoryStore
from twinbus.store.opening import open_store
from twinbus.topics.topic import Subscribed, TopicRouter

TOPIC = b"t" * 16
FAILING = "sys.Nothing = 1"


def rule(name: str, text: str = "1 = 1", action: str | None = None) -> Rule:
    return check_rule(name, sql_filter(text), action and sql_action(action), 0)


def no_stored_rule(stored: StoredRule) -> Rule:
    raise AssertionError("these tests store no rules")


def payload(session_id: str | None = None, **properties: Any) -> bytes:
    return encode_message(
        AmqpMessage(
            properties=Properties(group_id=session_id),
            application_properties=properties,
            body=Data((b"body",)),
        )
    )


class World:
    """A topic and its subscriptions, changed and committed by hand."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self._epoch = run(open_store(self.store, "test", NOW)).epoch
        self._table = FragmentTable(self._epoch, [])
        self.router = TopicRouter(bytes, no_stored_rule)
        settings = FragmentSettings(path="news")
        self._table.admit(TOPIC, settings, router=self.router)
        self._changes = ChangeSet()
        self._batch = 0
        self.topic = self._table.create(TOPIC, 0, self._changes)
        self.commit()

    def subscribe(
        self, key: str, *rules: Rule, failures: bool = True, **settings: Any
    ) -> Fragment:
        generation = key.encode() * 16
        path = f"news/Subscriptions/{key}"
        self._table.admit(
            generation, FragmentSettings(path=path, **settings), within=TOPIC
        )
        fragment = self._table.create(generation, 0, self._changes)
        self.router.subscribe(key, Subscribed(generation, (self._table,), failures))
        for given in rules:
            self.router.rules().add(key, given)
        self.commit()
        return fragment

    def send(self, raw: bytes) -> ChangeSet:
        self.topic.enqueue(read_message(raw), ACTOR, NOW, self._changes)
        return self.commit()

    def commit(self) -> ChangeSet:
        changes, self._changes = self._changes, ChangeSet()
        self._batch += 1
        changes.seal(self._epoch, self._batch, NOW)
        run(self.store.commit(changes))
        changes.publish()
        return changes

    def held(self, fragment: Fragment) -> list[Message]:
        """What the store has of a fragment."""
        found: list[Message] = run(
            self.store.read_active(fragment.number, 0, 100, 1 << 30)
        )
        return found

    def dead_letters(self, fragment: Fragment) -> list[Message]:
        return self.held(self._table.sub_queue_of(fragment, DEAD_LETTER))


@pytest.fixture
def world() -> World:
    return World()


def test_unchanged_copies_share_one_body(world: World) -> None:
    subscriptions = [world.subscribe(key, rule("r")) for key in "abc"]
    raw = payload()
    changes = world.send(raw)
    assert [body.raw for body in changes.bodies_added] == [raw]
    for fragment in subscriptions:
        assert [message.raw for message in world.held(fragment)] == [raw]


def test_single_copy_needs_no_shared_body(world: World) -> None:
    only = world.subscribe("a", rule("r"))
    world.subscribe("b", rule("r", "1 = 0"))
    changes = world.send(payload())
    assert changes.bodies_added == []
    assert len(world.held(only)) == 1


def test_topic_keeps_nothing_itself(world: World) -> None:
    world.subscribe("a", rule("r"))
    world.send(payload())
    assert world.held(world.topic) == []
    assert world.topic.active_count == 0


def test_rules_without_action_give_one_copy_and_actions_their_own(
    world: World,
) -> None:
    fragment = world.subscribe(
        "a", rule("p"), rule("q"), rule("x", action="SET n = 1"), rule("no", "1 = 0")
    )
    raw = payload()
    world.send(raw)
    copies = [message.raw for message in world.held(fragment)]
    assert len(copies) == 2
    assert raw in copies
    (changed,) = (copy for copy in copies if copy != raw)
    assert b"RuleName" in changed


def test_copy_remembers_the_number_of_the_topic(world: World) -> None:
    fragment = world.subscribe("a", rule("r", "n = 2"))
    for n in (1, 2):
        world.send(payload(n=n))
    (message,) = world.held(fragment)
    assert fragment.sequence_number(message) == 1
    assert message.body_id == world.topic.row_id(2)


def test_failing_filter_is_a_dead_letter_with_the_reason(world: World) -> None:
    fragment = world.subscribe("a", rule("f", FAILING))
    world.send(payload())
    (dead,) = world.dead_letters(fragment)
    assert dead.annex is not None
    assert dead.annex.dead_letter_reason == "FilterEvaluationException"
    assert world.held(fragment) == []


def test_failing_filter_is_no_match_where_that_is_wanted(world: World) -> None:
    fragment = world.subscribe("a", rule("f", FAILING), failures=False)
    world.send(payload())
    assert world.held(fragment) + world.dead_letters(fragment) == []


def test_missing_session_id_is_a_dead_letter(world: World) -> None:
    fragment = world.subscribe("a", rule("r"), requires_session=True)
    world.send(payload())
    world.send(payload(session_id="s"))
    (dead,) = world.dead_letters(fragment)
    assert dead.annex is not None
    assert dead.annex.dead_letter_reason == "Session ID is null."
    assert fragment.active_count == 1


def test_who_has_unsubscribed_gets_nothing_more(world: World) -> None:
    fragment = world.subscribe("a", rule("r"))
    world.send(payload())
    world.router.unsubscribe("a")
    world.send(payload())
    assert len(world.held(fragment)) == 1


def test_size_of_all_subscriptions_counts_for_the_topic(world: World) -> None:
    first, second = world.subscribe("a", rule("r")), world.subscribe("b", rule("r"))
    world.send(payload())
    used = first.size_bytes + second.size_bytes
    assert used > 0
    world.topic.settings.max_size_bytes = used + 10
    world.topic.check_quota(10)
    with pytest.raises(QuotaExceeded, match="size in bytes"):
        world.topic.check_quota(11)
