"""Clients of entities that forward to each other."""

from dataclasses import replace
from random import Random
from typing import Final

from simulator import requests, topic_requests
from simulator.audited_message import Rules
from simulator.auditor import Auditor
from simulator.draft import Draft
from simulator.forwarding_auditor import ForwardingAuditor
from simulator.life import Life
from simulator.links import SimulatedReceiver, SimulatedSender
from simulator.topic_audit import topic_of
from simulator.workload import Workload

_SUBSCRIPTION: Final = "news/Subscriptions/a"
_STATUSES: Final = ("Active",) * 12 + ("SendDisabled", "Disabled")


class ForwardingWorkload(Workload):
    """Sends to queues, and to a topic, that forward."""

    creations = 12.0
    auditor = ForwardingAuditor
    paths = ("in", "near", "far", "out", "rest", _SUBSCRIPTION)

    def __init__(self, random: Random, auditor: Auditor) -> None:
        super().__init__(random, auditor)
        left_out = (self._schedule, self._cancel, self._batch_delete)
        self._steps = [item for item in self._steps if item[0] not in left_out]
        self._id_count = random.choice((3, 20))

    def _rules(self) -> Rules:
        random = self._random
        rules = super()._rules()
        return replace(
            rules,
            default_ttl_ms=0,
            forward_to=self._target(0.5),
            forward_dead_letters_to=self._target(0.3),
            duplicate_window_ms=random.choice((0, 0, 20_000)),
            requires_session=random.random() < 0.05,
            status=random.choice(_STATUSES),
            is_small=random.random() < 0.2,
        )

    def _target(self, probability: float) -> str:
        target = self._random.choice(self.paths)
        if self._random.random() > probability or not self._auditor.has_queue(target):
            return ""
        return topic_of(target)

    def _draft(self, scheduled_at: int = 0) -> Draft:
        draft = super()._draft()
        number = self._random.randint(0, self._id_count)
        return replace(
            draft,
            ttl_ms=0,
            message_id=f"id{number}" if number else "",
        )

    # --- entities -------------------------------------------------------------

    def _create_queue(self, life: Life) -> None:
        path = self._random.choice(self.paths)
        rules = self._rules()
        if path != _SUBSCRIPTION:
            if self._auditor.may_create(path):
                life.request(requests.create_queue(life, path, rules))
            return
        rules = replace(
            rules, duplicate_window_ms=0, requires_session=False, is_small=False
        )
        if self._auditor.topics.may_create("news"):
            life.request(topic_requests.create_topic(life, "news"))
        elif self._auditor.may_create(path) and self._auditor.topics.has_topic("news"):
            everything = topic_requests.RuleDraft(name="all", kind="true", colors=())
            life.request(
                topic_requests.create_subscription(life, path, rules, [everything])
            )

    def _update_queue(self, life: Life) -> None:
        path, rules = self._path(), self._rules()
        if path is None:
            return
        rules = self._auditor.updated_rules(path, rules)
        if path == _SUBSCRIPTION:
            life.request(topic_requests.update_subscription(life, path, rules))
        else:
            self._update_to(life, path, rules)

    def _delete_queue(self, life: Life) -> None:
        """Not the subscription: without one, a topic would drop its messages."""
        path = self._path()
        if path is not None and path != _SUBSCRIPTION:
            self._delete(life, path)

    # --- messages -------------------------------------------------------------

    def _sender(self, life: Life) -> SimulatedSender | None:
        path = self._path()
        if path is None or not self._auditor.may_send(path):
            return None
        path = topic_of(path)
        attached = [s for s in life.senders if s.is_attached and s.path == path]
        if attached and self._random.random() < 0.8:
            return self._random.choice(attached)
        self._link_count += 1
        entity = life.namespace.entity(path)
        sender = SimulatedSender(life, entity, self._link_count)
        life.senders.append(sender)
        return sender

    def _new_receiver(
        self, life: Life, path: str, dead_letter: bool, peek_lock: bool
    ) -> SimulatedReceiver | None:
        if not self._auditor.may_receive(path, dead_letter):
            return None
        if self._auditor.sessions.requires_session(path) and not dead_letter:
            return None
        return super()._new_receiver(life, path, dead_letter, peek_lock)
