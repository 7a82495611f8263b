"""What clients know of topics: which subscriptions must get a message, which may.

A message to a topic becomes copies, which are judged like messages of queues: one for
each subscription with a matching rule, and one for each matching rule with an action.
If rule and subscription certainly existed from the send to the answer, the copy must
exist; if they came or went meanwhile, it may exist.

Rules match the color of a message, so that no code of the bus is needed to judge.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from simulator.audited_message import (
    ACTIVE,
    AuditedMessage,
    AuditedQueue,
    Sent,
)
from simulator.history import History
from simulator.judgement import Judgement
from simulator.sighting import Violation

SUBSCRIPTIONS = "/Subscriptions/"


@dataclass(slots=True, kw_only=True, eq=False)
class AuditedRule:
    """One rule of a subscription, from its addition to its removal."""

    name: str
    # The colors that it matches.
    colors: frozenset[str]
    # What its action writes to its copy; empty without an action.
    tag: str
    # Events: from when on it may exist, exists, is removed.
    may_be_from: int
    is_from: int = 0
    ended_from: int = 0
    # Events at which its removal was requested, and not refused.
    removals: set[int] = field(default_factory=set)

    def is_there(self, since: int) -> bool:
        """It existed from that event until now."""
        return 0 < self.is_from <= since and not self.removals

    def may_be_there(self, since: int) -> bool:
        """It may have existed at some time since that event."""
        return not 0 < self.ended_from <= since


@dataclass(slots=True, kw_only=True, eq=False)
class AuditedTopic:
    """One life of a topic, from its creation to its deletion."""

    path: str
    is_ending: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class TopicSend:
    """A message that was sent to a topic and not answered yet."""

    uid: str
    topic: AuditedTopic
    sent: Sent
    sent_at: int
    sent_event: int


@dataclass(slots=True)
class Copies:
    """The copies of a message for a topic, by identity."""

    certain: list[str] = field(default_factory=list)
    possible: list[str] = field(default_factory=list)


def _is_uncertain(rule: AuditedRule) -> bool:
    return not rule.is_from or bool(rule.removals)


def topic_of(path: str) -> str:
    return path.partition(SUBSCRIPTIONS)[0]


class TopicAudit:
    """The topics of a world; subscriptions are queues of the auditor."""

    def __init__(
        self,
        history: History,
        judgement: Judgement,
        queues: Mapping[str, AuditedQueue],
    ) -> None:
        self._history = history
        self._judgement = judgement
        self._queues = queues
        self._topics: dict[str, AuditedTopic] = {}
        self._unsure: set[str] = set()
        self._sends: dict[str, TopicSend] = {}
        judgement.on_unknown = self.seen_early

    # --- topics ---------------------------------------------------------------

    def has_topic(self, path: str) -> bool:
        return path in self._topics and not self._topics[path].is_ending

    def may_create(self, path: str) -> bool:
        return path not in self._topics and path not in self._unsure

    def topic_requested(self, path: str) -> None:
        self._unsure.add(path)

    def topic_answered(self, path: str, *, is_created: bool) -> None:
        self._unsure.discard(path)
        if is_created:
            self._topics[path] = AuditedTopic(path=path)

    def deletion_requested(self, path: str) -> None:
        self._topics[path].is_ending = True

    def topic_deleted(self, path: str) -> None:
        del self._topics[path]

    def listed(self, paths: Iterable[str]) -> None:
        """After a start: the topics that exist."""
        listed = set(paths)
        for path in listed - set(self._topics):
            if path not in self._unsure:
                raise Violation(f"topic {path} exists and nobody made it")
            self._topics[path] = AuditedTopic(path=path)
        for path, topic in list(self._topics.items()):
            if path in listed:
                topic.is_ending = False
            elif topic.is_ending:
                del self._topics[path]
            else:
                raise Violation(f"topic {path} was created and is not there")
        self._unsure.clear()

    # --- rules ----------------------------------------------------------------

    def rule_names(self, path: str) -> list[str]:
        """Names of rules that may exist."""
        queue = self._queues.get(path)
        rules = [] if queue is None else queue.topic_rules
        return sorted({rule.name for rule in rules if not rule.ended_from})

    def rule_requested(self, path: str, rule: AuditedRule) -> None:
        self._queues[path].topic_rules.append(rule)

    def rule_answered(self, path: str, rule: AuditedRule, *, is_added: bool) -> None:
        if is_added:
            rule.is_from = self._history.event
        else:
            rule.ended_from = 1

    def removal_requested(self, path: str, name: str) -> list[AuditedRule]:
        """The rules that the removal may concern."""
        rules = [
            rule
            for rule in self._queues[path].topic_rules
            if rule.name == name and not rule.ended_from
        ]
        for rule in rules:
            rule.removals.add(self._history.event)
        return rules

    def removal_answered(
        self, rules: list[AuditedRule], request: int, *, is_removed: bool
    ) -> None:
        """The result of the removal that was requested at that event."""
        for rule in rules:
            if is_removed:
                rule.ended_from = rule.ended_from or self._history.event
            else:
                rule.removals.discard(request)

    def rules_listed(self, path: str, found: set[tuple[str, str]]) -> None:
        """No request is in progress: these are names and tags of the existing rules."""
        listed = set(found)
        rules = self._queues[path].topic_rules
        # Several may have had the name: certain ones first, then the last.
        for rule in sorted(reversed(rules), key=_is_uncertain):
            is_there = (rule.name, rule.tag) in listed
            if rule.ended_from and not is_there:
                continue
            if is_there and not rule.ended_from:
                listed.discard((rule.name, rule.tag))
                rule.is_from = rule.is_from or self._history.event
                rule.removals.clear()
            elif not is_there:
                if rule.is_from and not rule.removals:
                    raise Violation(f"rule {rule.name} of {path} is not there")
                rule.ended_from = self._history.event
        if listed:
            raise Violation(f"rules {sorted(listed)} of {path} should not be there")

    # --- messages -------------------------------------------------------------

    def knows_send(self, uid: str) -> bool:
        return uid in self._sends

    def send_requested(self, uid: str, path: str, sent: Sent) -> None:
        self._sends[uid] = TopicSend(
            uid=uid,
            topic=self._topics[path],
            sent=sent,
            sent_at=self._history.now,
            sent_event=self._history.event,
        )

    def send_refused(self, uid: str) -> None:
        del self._sends[uid]
        if any(known.startswith(f"{uid}@") for known in self._judgement.messages):
            raise Violation(f"{uid} was seen before its send was refused")

    def seen_early(self, identity: str) -> None:
        """A client may see a copy before the sender has its answer."""
        send = self._sends.get(identity.partition("@")[0])
        if send is not None:
            for queue in self._subscriptions(send):
                for tag in self._possible_tags(queue, send):
                    self._add(send, queue, tag)

    def _subscriptions(self, send: TopicSend) -> list[AuditedQueue]:
        prefix = send.topic.path + SUBSCRIPTIONS
        return [q for path, q in self._queues.items() if path.startswith(prefix)]

    def answered(self, uid: str, *, is_accepted: bool) -> Copies:
        """The message was accepted, or may have been: returns its copies, which the
        auditor knows from now on."""
        send = self._sends.pop(uid)
        copies = Copies()
        for queue in self._subscriptions(send):
            is_certain = self._certain_tags(queue, send)
            for tag in sorted(self._possible_tags(queue, send)):
                identity = self._add(send, queue, tag)
                certain = is_accepted and tag in is_certain
                (copies.certain if certain else copies.possible).append(identity)
        return copies

    def _certain_tags(self, queue: AuditedQueue, send: TopicSend) -> set[str]:
        if queue.is_ending or not 0 < queue.created_event <= send.sent_event:
            return set()
        return {
            rule.tag
            for rule in queue.topic_rules
            if send.sent.color in rule.colors and rule.is_there(send.sent_event)
        }

    def _possible_tags(self, queue: AuditedQueue, send: TopicSend) -> set[str]:
        return {
            rule.tag
            for rule in queue.topic_rules
            if send.sent.color in rule.colors and rule.may_be_there(send.sent_event)
        }

    def _add(self, send: TopicSend, queue: AuditedQueue, tag: str) -> str:
        identity = copy_identity(send.uid, queue.path, tag)
        known = self._judgement.messages.get(identity)
        if known is not None and known.queue is queue:
            return identity
        message = AuditedMessage(
            uid=identity,
            queue=queue,
            size_bytes=send.sent.size_bytes + _added_bytes(send.sent, queue, tag),
            ttl_ms=send.sent.ttl_ms,
            scheduled_at=0,
            sent_at=send.sent_at,
            sent_event=send.sent_event,
            is_certain_copy=tag in self._certain_tags(queue, send),
        )
        self._judgement.messages[identity] = message
        message.begin("send", frozenset((ACTIVE,)))
        return identity


def copy_identity(uid: str, path: str, tag: str) -> str:
    """How the auditor identifies a subscription's copy of a message."""
    _, _, name = path.partition(SUBSCRIPTIONS)
    return f"{uid}@{name}#{tag}" if tag else f"{uid}@{name}"


def _added_bytes(sent: Sent, queue: AuditedQueue, tag: str) -> int:
    """How many bytes the action with this tag adds to a message."""
    if not tag:
        return 0
    names = [rule.name for rule in queue.topic_rules if rule.tag == tag]
    return sent.tagged_bytes + len(names[-1])
