"""The router of a topic: which subscriptions get a message, and what each gets.

| a subscription's rules               | it gets                                  |
|--------------------------------------|------------------------------------------|
| one or more without action match     | one copy, unchanged                      |
| one with an action matches           | its own copy, changed by the action      |
| none matches                         | nothing                                  |
| a filter or action fails             | a dead letter, if its description says so |

All copies are in the commit of the message itself. Unchanged copies share the sender's
bytes: they are stored once for all subscriptions. A copy has the sequence number of its
subscription, and keeps the topic's.

Stored rules are parsed when they are first needed, so an unused topic costs no parsing.
They can also be parsed ahead, a few at a time.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from twinbus.broker.changes import ChangeSet, SharedBody, StoredRule
from twinbus.broker.dead_letter import SESSION_ID_IS_NULL
from twinbus.broker.fragment import MAIN, Fragment
from twinbus.broker.fragment_table import FragmentTable
from twinbus.broker.message import Message
from twinbus.broker.router import Router
from twinbus.encoding.message_view import EncodedView
from twinbus.encoding.rewriting import rewritten
from twinbus.rules.filter_error import FilterError
from twinbus.rules.index import Matched, RuleIndex
from twinbus.rules.rule import Rule

_NO_SESSION_TEXT = (
    "The subscription requires sessions, and the message has no session id."
)
_FILTER_FAILED = "FilterEvaluationException"

_MANY: Final = 1_000


@final
class Subscribed:
    """A subscription as the router sees it."""

    def __init__(
        self,
        generation: bytes,
        tables: tuple[FragmentTable, ...],
        dead_letters_failures: bool,
    ) -> None:
        self.generation: bytes = generation
        # By index: each fragment is in the store of the topic's.
        self._tables: tuple[FragmentTable, ...] = tables
        self.dead_letters_failures: bool = dead_letters_failures

    def fragment(self, index: int) -> Fragment:
        """The fragment beside the topic's. It is looked up each time: it is loaded only
        when needed, and may be another object after a failed commit."""
        found = self._tables[index].find(self.generation, index, MAIN)
        assert found is not None, "a subscription without a fragment"
        return found


@final
class TopicRouter(Router):
    """Distributes the messages of one topic."""

    def __init__(
        self,
        entropy: Callable[[int], bytes],
        read_rule: Callable[[StoredRule], Rule],
    ) -> None:
        self._entropy: Callable[[int], bytes] = entropy
        # Parses a rule; passed in, because the parser is not part of this package.
        self._read_rule: Callable[[StoredRule], Rule] = read_rule
        # By lower-case name.
        self._subscribed: dict[str, Subscribed] = {}
        self._index: RuleIndex = RuleIndex()
        # Rules that are not parsed yet, by subscription.
        self._stored: dict[str, deque[StoredRule]] = {}
        # The number of rules that are not parsed yet.
        self.unread_count: int = 0

    # --- subscriptions and rules ----------------------------------------------

    def subscribe(self, key: str, subscribed: Subscribed) -> None:
        """A subscription exists, or its description changed."""
        self._subscribed[key] = subscribed

    def unsubscribe(self, key: str) -> None:
        self._subscribed.pop(key, None)
        self._forget_stored(key)
        self._index.remove_subscription(key)

    def restore(self, key: str, rules: list[StoredRule]) -> None:
        """Replace the subscription's rules by those of the store."""
        self._index.remove_subscription(key)
        self._forget_stored(key)
        self._stored[key] = deque(rules)
        self.unread_count += len(rules)

    def _forget_stored(self, key: str) -> None:
        rules = self._stored.pop(key, None)
        if rules is not None:
            self.unread_count -= len(rules)

    def rules(self) -> RuleIndex:
        """All rules of the topic, parsed."""
        while self._stored:
            self.read_some(_MANY)
        return self._index

    def read_some(self, count: int) -> bool:
        """Parse up to `count` of the stored rules; True if none is left."""
        while self._stored and count > 0:
            key = next(iter(self._stored))
            rules = self._stored[key]
            while rules and count > 0:
                self.unread_count -= 1
                count -= 1
                self._index.add(key, self._read_rule(rules.popleft()))
            if not rules:
                del self._stored[key]
        return not self._stored

    # --- messages -------------------------------------------------------------

    def route(
        self, topic: Fragment, message: Message, now: int, changes: ChangeSet
    ) -> None:
        index = self.rules()
        view = EncodedView(message, topic.sequence_number(message), self._entropy)
        plain: list[Fragment] = []
        for matched in index.match(view):
            subscribed = self._subscribed.get(matched.subscription_key)
            if subscribed is None:
                continue
            fragment = subscribed.fragment(topic.index)
            if matched.plain:
                plain.append(fragment)
            for rule in matched.actions:
                self._put_changed(
                    subscribed, fragment, message, rule, view, now, changes
                )
            if matched.error is not None and not _is_selected(matched):
                _fail(subscribed, fragment, message, matched.error, now, changes)
        is_shared = len(plain) > 1
        if is_shared:
            changes.bodies_added.append(
                SharedBody(body_id=message.row_id, raw=message.raw)
            )
        for fragment in plain:
            _put(fragment, _copy(message, is_shared), now, changes)

    def _put_changed(
        self,
        subscribed: Subscribed,
        fragment: Fragment,
        message: Message,
        rule: Rule,
        view: EncodedView,
        now: int,
        changes: ChangeSet,
    ) -> None:
        try:
            copy = rewritten(message, rule, view)
        except FilterError as error:
            _fail(subscribed, fragment, message, error, now, changes)
            return
        copy.body_id = message.row_id
        copy.uid = message.uid
        _put(fragment, copy, now, changes)


def _is_selected(matched: Matched) -> bool:
    return matched.plain or bool(matched.actions)


def _copy(message: Message, is_shared: bool) -> Message:
    copy = Message(message.raw, message.layout, message.ttl_ms, message.scheduled_at)
    copy.annex = message.annex
    copy.session_id = message.session_id
    copy.uid = message.uid
    copy.body_id = message.row_id
    copy.is_shared = is_shared
    return copy


def _put(fragment: Fragment, copy: Message, now: int, changes: ChangeSet) -> None:
    if fragment.settings.requires_session and copy.session_id is None:
        fragment.reject(copy, SESSION_ID_IS_NULL, _NO_SESSION_TEXT, now, changes)
    else:
        fragment.adopt(copy, now, changes)


def _fail(
    subscribed: Subscribed,
    fragment: Fragment,
    message: Message,
    error: FilterError,
    now: int,
    changes: ChangeSet,
) -> None:
    """A filter or action could not be evaluated for this message."""
    if subscribed.dead_letters_failures:
        copy = _copy(message, is_shared=False)
        fragment.reject(copy, _FILTER_FAILED, str(error), now, changes)
