"""The command that sends a group of dead letters again, ready to be copied."""

import re
import shlex
from collections.abc import Iterable
from typing import Final

NUMBERS: Final = 200
"""Dead letters that a command names: a longer line is no fun to copy."""

_BACKLOG: Final = re.compile(r"(.+)/x-servicebus-transfer/[0-9]+", re.IGNORECASE)


def resubmit_command(entity: str, numbers: Iterable[int]) -> str:
    """For dead letters of an entity, by sequence number: others stay as they are."""
    flags = [word for number in numbers for word in ("--sequence-number", str(number))]
    return _line("resubmit", entity, *flags)


def needs_secondary(entity: str) -> bool:
    """Whether the entity is a backlog queue, which is in the secondary."""
    return _BACKLOG.fullmatch(entity) is not None


def _line(*words: str) -> str:
    return shlex.join(("twinbus", "dead-letters", *words))
