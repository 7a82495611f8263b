"""Which backlog queues are in use (P8).

Each sender chooses one queue at random and stays with it. A queue that fails is taken
out of rotation for all senders of the pair, and tried again after a while. If no other
queue is left, it is tried sooner: a call that has time left loses nothing by that.
Pure: the time and the random generator are arguments.
"""

from collections.abc import Callable, Sequence
from typing import final


@final
class Rotation:
    """The backlog queues of a pair, shared by its senders."""

    def __init__(
        self, queues: Sequence[str], choose: Callable[[Sequence[str]], str]
    ) -> None:
        self.queues = tuple(queues)
        self._choose = choose
        # Queue -> until when it is out of rotation, in the order in which they failed.
        self._out_until: dict[str, int] = {}
        # Those of them that asked for patience (A2).
        self._busy: set[str] = set()

    def pick(self, now: int, preferred: str | None = None) -> str | None:
        """The preferred queue if it is in rotation, else any other that is, or None."""
        if preferred is not None and self.is_in(preferred, now):
            return preferred
        usable = [queue for queue in self.queues if self.is_in(queue, now)]
        return self._choose(usable) if usable else None

    def is_in(self, queue: str, now: int) -> bool:
        return self._out_until.get(queue, 0) <= now

    def again(self, now: int) -> str | None:
        """The queue to try while none is in rotation: the one that failed longest ago.
        None if all of them answered that they are busy."""
        out = [queue for queue in self._out_until if self.may_try(queue, now)]
        return out[0] if out else None

    def may_try(self, queue: str, now: int) -> bool:
        """A sender without another queue may try this one."""
        return self.is_in(queue, now) or queue not in self._busy

    def take_out(self, queue: str, until: int, *, is_busy: bool = False) -> None:
        """The queue failed: until then, senders take another one if there is one."""
        self._out_until.pop(queue, None)
        self._out_until[queue] = until
        if is_busy:
            self._busy.add(queue)
        else:
            self._busy.discard(queue)

    def put_back(self, queue: str) -> bool:
        """The queue took a message. Returns whether it had failed before."""
        return self._out_until.pop(queue, None) is not None

    def out_of_rotation(self, now: int) -> list[str]:
        return [queue for queue in self.queues if not self.is_in(queue, now)]
