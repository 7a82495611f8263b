"""The entities of a drill: one of each kind for each client of the vendor's SDK."""

from dataclasses import dataclass

RING = "ring"
"""The queue of the transactions."""

LOCK_SECONDS = 10
"""What a client had when it lost its connection comes back after that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrilledEntity:
    """A queue, or a topic with its subscriptions."""

    path: str
    subscriptions: tuple[str, ...] = ()
    is_partitioned: bool = False
    finds_duplicates: bool = False
    has_sessions: bool = False

    def sources(self) -> list[str]:
        """Where its messages are received."""
        if not self.subscriptions:
            return [self.path]
        return [f"{self.path}/subscriptions/{name}" for name in self.subscriptions]

    def toml(self) -> str:
        flags = [
            ("enable_partitioning", self.is_partitioned),
            ("requires_duplicate_detection", self.finds_duplicates),
        ]
        own = [f"{name} = true" for name, is_set in flags if is_set]
        received = [f'lock_duration = "PT{LOCK_SECONDS}S"', "max_delivery_count = 1000"]
        if self.has_sessions:
            received.append("requires_session = true")
        if not self.subscriptions:
            return "\n".join([f"[queues.{self.path}]", *own, *received, ""])
        lines = [f"[topics.{self.path}]", *own]
        for name in self.subscriptions:
            lines += [f"[topics.{self.path}.subscriptions.{name}]", *received]
        return "\n".join([*lines, ""])


ENTITIES = (
    DrilledEntity(path="plain"),
    DrilledEntity(path="spread", is_partitioned=True),
    DrilledEntity(path="once", finds_duplicates=True),
    DrilledEntity(path="spread-once", is_partitioned=True, finds_duplicates=True),
    DrilledEntity(path="sessions", has_sessions=True),
    DrilledEntity(
        path="spread-sessions",
        is_partitioned=True,
        has_sessions=True,
        finds_duplicates=True,
    ),
    DrilledEntity(path="topic", subscriptions=("one", "two")),
    DrilledEntity(
        path="spread-topic",
        subscriptions=("one", "two"),
        is_partitioned=True,
        finds_duplicates=True,
    ),
)

CONFIG = "\n".join(
    [one.toml() for one in ENTITIES]
    + [f"[queues.{RING}]", f'lock_duration = "PT{LOCK_SECONDS}S"', ""]
    + ["max_delivery_count = 1000", ""]
)
