"""What the path of a request names.

    $Resources/queues, $Resources/topics            lists
    $namespaceinfo                                  the namespace
    T/Subscriptions, T/Subscriptions/S              of a topic
    T/Subscriptions/S/Rules, T/Subscriptions/S/Rules/R
    any other                                       a queue or a topic

Names of topics may contain slashes, so paths are read from their end. Fixed segments
are recognised in any spelling; names are kept as they were written.
"""

from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """What kind of thing is asked about."""

    NAMESPACE = auto()
    QUEUES = auto()
    TOPICS = auto()
    # A queue or a topic: the path does not say which.
    ENTITY = auto()
    SUBSCRIPTIONS = auto()
    RULES = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A thing, or a whole collection where its own name is empty."""

    kind: Kind
    # Path of a queue or topic.
    entity: str = ""
    subscription: str = ""
    rule: str = ""

    @property
    def is_collection(self) -> bool:
        if self.kind is Kind.SUBSCRIPTIONS:
            return not self.subscription
        if self.kind is Kind.RULES:
            return not self.rule
        return self.kind is not Kind.ENTITY


def parse_resource(path: str) -> Resource:
    """Take a decoded path apart; says nothing about what exists."""
    fixed = {
        "$namespaceinfo": Kind.NAMESPACE,
        "$resources/queues": Kind.QUEUES,
        "$resources/topics": Kind.TOPICS,
    }
    kind = fixed.get(path.lower())
    if kind is not None:
        return Resource(kind=kind)
    return _below_topic(path.split("/")) or Resource(kind=Kind.ENTITY, entity=path)


def _below_topic(names: list[str]) -> Resource | None:
    lower = [name.lower() for name in names]
    for kind, pattern in _PATTERNS:
        start = len(names) - len(pattern)
        if start >= 1 and all(
            fixed in ("", found)
            for fixed, found in zip(pattern, lower[start:], strict=True)
        ):
            own = names[start:]
            return Resource(
                kind=kind,
                entity="/".join(names[:start]),
                subscription=own[1] if len(own) > 1 else "",
                rule=own[3] if len(own) > 3 else "",
            )
    return None


# Longest first; an empty segment is a name.
_PATTERNS = (
    (Kind.RULES, ("subscriptions", "", "rules", "")),
    (Kind.RULES, ("subscriptions", "", "rules")),
    (Kind.SUBSCRIPTIONS, ("subscriptions", "")),
    (Kind.SUBSCRIPTIONS, ("subscriptions",)),
)
