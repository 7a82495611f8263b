"""Parses the path of a request: what it names.

    $Resources/queues, $Resources/topics            lists
    $namespaceinfo                                  the namespace
    T/Subscriptions, T/Subscriptions/S              of a topic
    T/Subscriptions/S/Rules, T/Subscriptions/S/Rules/R
    any other                                       a queue or a topic

Names of topics may contain slashes, so paths are read from the end. Fixed segments are
recognised in any letter case; names are kept as written.
"""

from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """Kind of the named resource."""

    NAMESPACE = auto()
    QUEUES = auto()
    TOPICS = auto()
    # A queue or a topic: the path does not say which.
    ENTITY = auto()
    SUBSCRIPTIONS = auto()
    RULES = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource, or a collection if its own name is empty."""

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
    """Parse a decoded path. The resource need not exist."""
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


# Longest first. An empty segment stands for a name.
_PATTERNS = (
    (Kind.RULES, ("subscriptions", "", "rules", "")),
    (Kind.RULES, ("subscriptions", "", "rules")),
    (Kind.SUBSCRIPTIONS, ("subscriptions", "")),
    (Kind.SUBSCRIPTIONS, ("subscriptions",)),
)
