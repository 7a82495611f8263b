"""Clients of topics: subscriptions and rules come and go while messages are sent."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from simulator import topic_requests
from simulator.auditor import Auditor
from simulator.draft import Draft
from simulator.life import Life
from simulator.links import SimulatedSender
from simulator.topic_audit import SUBSCRIPTIONS, topic_of
from simulator.topic_requests import RuleDraft
from simulator.workload import Workload

_TOPICS: Final = ("news", "mail")
_COLORS: Final = ("red", "green", "blue")
_RULES: Final = ("first", "second", "third")


class TopicWorkload(Workload):
    """Sends to topics, and receives from their subscriptions."""

    creations = 8.0
    paths = (
        f"news{SUBSCRIPTIONS}a",
        f"news{SUBSCRIPTIONS}b",
        f"news{SUBSCRIPTIONS}c",
        f"mail{SUBSCRIPTIONS}a",
    )

    def __init__(self, random: Random, auditor: Auditor) -> None:
        super().__init__(random, auditor)
        self._tag_count = 0
        steps: list[tuple[Callable[[Life], None], float]] = [
            (self._add_rule, 4 * random.random()),
            (self._remove_rule, 3 * random.random()),
            (self._delete_topic, 0.3 * random.random()),
        ]
        # A message that is scheduled at a topic is not in a subscription yet.
        left_out = (self._schedule, self._cancel)
        self._steps = [item for item in self._steps if item[0] not in left_out]
        self._steps += steps

    def _draft(self, scheduled_at: int = 0) -> Draft:
        draft = super()._draft()
        return replace(draft, color=self._random.choice(_COLORS))

    def _rule(self) -> RuleDraft:
        random = self._random
        kind = random.choice(("sql", "sql", "correlation", "correlation", "true"))
        colors: tuple[str, ...] = _COLORS
        if random.random() < 0.05:
            kind, colors = "false", ()
        elif kind == "sql":
            colors = tuple(random.sample(_COLORS, random.randint(1, 2)))
        elif kind == "correlation":
            colors = (random.choice(_COLORS),)
        self._tag_count += 1
        tag = f"tag-{self._tag_count % 100:02}" if random.random() < 0.3 else ""
        return RuleDraft(name=random.choice(_RULES), kind=kind, colors=colors, tag=tag)

    # --- entities -------------------------------------------------------------

    def _create_queue(self, life: Life) -> None:
        path = self._random.choice(self.paths)
        rules = self._rules()
        drafts = [self._rule() for _ in range(self._random.choice((0, 1, 1, 1, 2)))]
        drafts = list({draft.name: draft for draft in drafts}.values())
        topic = topic_of(path)
        if self._auditor.topics.may_create(topic):
            life.request(topic_requests.create_topic(life, topic))
        elif self._auditor.may_create(path):
            work = topic_requests.create_subscription(life, path, rules, drafts)
            life.request(work)

    def _update_queue(self, life: Life) -> None:
        path, rules = self._path(), self._rules()
        if path is not None:
            life.request(topic_requests.update_subscription(life, path, rules))

    def _delete_queue(self, life: Life) -> None:
        path = self._path()
        if path is not None:
            life.request(topic_requests.delete_subscription(life, path))

    def _delete_topic(self, life: Life) -> None:
        path = self._random.choice(_TOPICS)
        if self._auditor.topics.has_topic(path):
            life.request(topic_requests.delete_topic(life, path))

    # --- rules ----------------------------------------------------------------

    def _add_rule(self, life: Life) -> None:
        path, draft = self._path(), self._rule()
        if path is not None:
            life.request(topic_requests.add_rule(life, path, draft))

    def _remove_rule(self, life: Life) -> None:
        path, name = self._path(), self._random.choice(_RULES)
        if path is not None and name in self._auditor.topics.rule_names(path):
            life.request(topic_requests.remove_rule(life, path, name))

    # --- sending --------------------------------------------------------------

    def _sender(self, life: Life) -> SimulatedSender | None:
        path = self._random.choice((*_TOPICS, "news", "news"))
        if not self._auditor.topics.has_topic(path):
            return None
        attached = [s for s in life.senders if s.is_attached and s.path == path]
        if attached and self._random.random() < 0.8:
            return self._random.choice(attached)
        self._link_count += 1
        topic = life.namespace.topic(path)
        sender = SimulatedSender(life, topic, self._link_count)
        life.senders.append(sender)
        return sender
