"""What the operation log of one store needs beyond a single commit: who the actors and
fragments are, and which blob came before.

A blob describes an actor or a fragment before its first record in a block of commits.
A block is 256 commits, by their numbers. So a reader that begins at the start of a
block needs nothing before it, and a log whose beginning was trimmed can be read.

    actor       client, purpose, key name; divided by tabs
    fragment    path, kind of the entity, sub-queue, index, generation; divided by tabs
"""

from typing import TYPE_CHECKING, Final, final

from twinbus.broker.operation_log import RUN_FIELDS, THE_BUS, OperationLog
from twinbus.broker.row_id import fragment_number_of

if TYPE_CHECKING:
    from twinbus.broker.fragment_table import FragmentTable

BLOCK_SHIFT: Final = 8
"""A block has 1 << BLOCK_SHIFT commits."""

_DESCRIPTION_BYTES: Final = 2_000
"""Longer descriptions are cut."""


def actor_text(client: str, purpose: str, key_name: str = "") -> str:
    """The description of an actor."""
    return f"{client}\t{purpose}\t{key_name}"


@final
class LogBook:
    """Of one store, for as long as this process owns it."""

    def __init__(self) -> None:
        self._next_actor: int = THE_BUS + 1
        # Those who may act, by number; their numbers; how often each was introduced.
        self._actors: dict[int, bytes] = {}
        self._numbers: dict[bytes, int] = {}
        self._uses: dict[int, int] = {}
        # They have gone, and are forgotten after the next commit.
        self._dismissed: list[int] = []
        # Described in this block, and in which block.
        self._known_actors: set[int] = set()
        self._known_fragments: set[int] = set()
        self._block: int = -1
        # The last blob, and how long its commit took.
        self._previous: int = 0
        self._previous_ms: int = 0

    def introduce(self, description: str) -> int:
        """A number for somebody who will act."""
        text = description.encode()[:_DESCRIPTION_BYTES]
        actor = self._numbers.get(text, 0)
        if actor == 0:
            actor = self._next_actor
            self._next_actor += 1
            self._actors[actor] = text
            self._numbers[text] = actor
            self._uses[actor] = 0
        self._uses[actor] += 1
        return actor

    def dismiss(self, actor: int) -> None:
        """Somebody acts no more."""
        self._uses[actor] -= 1
        if self._uses[actor] == 0:
            self._dismissed.append(actor)

    def actor_count(self) -> int:
        return len(self._actors)

    def has_written(self) -> bool:
        """A blob was committed since the store was opened."""
        return self._previous != 0

    def begin(self) -> None:
        """The store was opened: nothing is known to its readers."""
        self._previous = 0
        self._previous_ms = 0
        self.forget()

    def forget(self) -> None:
        """A blob may be lost: describe everything again."""
        self._block = -1

    def forget_fragment(self, number: int) -> None:
        """The number will mean another fragment."""
        self._known_fragments.discard(number)

    def write(
        self, log: OperationLog, epoch: int, batch: int, table: "FragmentTable"
    ) -> None:
        """Complete the log of a commit: add the descriptions that it needs."""
        log.close_run()
        if log.is_empty():
            return
        log.epoch = epoch
        log.previous = self._previous
        log.previous_ms = self._previous_ms
        if batch >> BLOCK_SHIFT != self._block:
            self._block = batch >> BLOCK_SHIFT
            self._known_actors.clear()
            self._known_fragments.clear()
        runs = log.runs
        actor = number = -1
        for i in range(0, len(runs), RUN_FIELDS):
            if runs[i + 1] != actor:
                actor = runs[i + 1]
                self._describe_actor(actor, log)
            if fragment_number_of(runs[i + 2]) != number:
                number = fragment_number_of(runs[i + 2])
                self._describe_fragment(number, log, table)

    def _describe_actor(self, actor: int, log: OperationLog) -> None:
        if actor == THE_BUS or actor in self._known_actors:
            return
        self._known_actors.add(actor)
        description = self._actors.get(actor)
        if description is not None:
            log.actors.append((actor, description))

    def _describe_fragment(
        self, number: int, log: OperationLog, table: "FragmentTable"
    ) -> None:
        if number in self._known_fragments:
            return
        description = table.description_of(number)
        if description:
            self._known_fragments.add(number)
            log.fragments.append((number, description.encode()[:_DESCRIPTION_BYTES]))

    def committed(self, log: OperationLog, batch: int, took_ms: int) -> None:
        """The commit of a log succeeded."""
        if not log.is_empty():
            self._previous = batch
            self._previous_ms = took_ms
        if self._dismissed:
            self._forget_dismissed()

    def _forget_dismissed(self) -> None:
        for actor in self._dismissed:
            # It may have come back, and gone again.
            if self._uses.get(actor) == 0:
                del self._numbers[self._actors.pop(actor)]
                del self._uses[actor]
                self._known_actors.discard(actor)
        self._dismissed = []
