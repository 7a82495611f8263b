"""What requests about the whole server ask of the other brokers of a cluster."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

LIST_FAULTS: Final = "list-faults"
COPY_FAULT: Final = "copy-fault"
CLEAR_FAULTS: Final = "clear-faults"
DIAGNOSE: Final = "diagnose"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAnswer:
    """What one broker answered."""

    # The name of the broker, for people.
    broker: str
    # None if it has not done it.
    content: dict[str, Any] | None
    # Why not.
    why: str = ""


class FellowBrokers(Protocol):
    """Those that are alive."""

    @property
    def own_name(self) -> str:
        """Of the broker that asks."""

    async def ask_all(self, name: str, content: object) -> Sequence[BrokerAnswer]:
        """Ask each of them at the same time. It ends soon: who is silent has not
        answered."""


def missing(answers: Iterable[BrokerAnswer]) -> list[dict[str, str]]:
    """For clients: the brokers that have not done it, and why."""
    return [
        {"broker": one.broker, "why": one.why} for one in answers if one.content is None
    ]
