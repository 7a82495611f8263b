"""What attackers are given: where the bus is, which keys they have, what is in it.

The entities are made by the bus's configuration (`victim.py`) and filled before the
attack (`filling.py`); all agree on the names and numbers here.
"""

import json
from dataclasses import asdict, dataclass
from typing import Final, Self

ROOT: Final = "RootManageSharedAccessKey"
SENDER: Final = "attacker-send"
LISTENER: Final = "attacker-listen"

GOOD_QUEUE: Final = "good"
TARGET: Final = "target"
"""An empty queue."""

SMALL: Final = "small"
SMALL_COUNT: Final = 10_500

LARGE: Final = "large"
LARGE_COUNT: Final = 2_500
DEFERRED: Final = "deferred"
DEFERRED_COUNT: Final = 1_500
LARGE_BYTES: Final = 200 * 1024

TOPIC: Final = "ruled"
RULE_COUNT: Final = 1_900

TOKEN_QUEUES: Final = 480


def token_queue(number: int) -> str:
    return f"token-{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """One bus, and the keys to it by the name of their rule."""

    port: int
    keys: dict[str, str]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, text: str) -> Self:
        return cls(**json.loads(text))
