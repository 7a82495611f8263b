"""Which backlog queues are in use (P8).

Each sender has chosen one at random and stays with it. One that fails is taken out of
rotation for all senders of the pair, and tried again after a while; sooner if there is
no other, because a call that has time left loses nothing by that. Pure: told the time
and given its randomness.
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
        # Until when a queue is out of rotation; the last that failed comes last.
        self._out_until: dict[str, int] = {}
        # Those of them that asked for patience (A2).
        self._busy: set[str] = set()

    def pick(self, now: int, preferred: str | None = None) -> str | None:
        """The preferred queue if it is in rotation, else any that is; None if none."""
        if preferred is not None and self.is_in(preferred, now):
            return preferred
        usable = [queue for queue in self.queues if self.is_in(queue, now)]
        return self._choose(usable) if usable else None

    def is_in(self, queue: str, now: int) -> bool:
        return self._out_until.get(queue, 0) <= now

    def again(self, now: int) -> str | None:
        """While none is in rotation: the one that failed longest ago; None if all of
        them asked for patience."""
        out = [queue for queue in self._out_until if self.may_try(queue, now)]
        return out[0] if out else None

    def may_try(self, queue: str, now: int) -> bool:
        """It may be tried by somebody who has no other."""
        return self.is_in(queue, now) or queue not in self._busy

    def take_out(self, queue: str, until: int, *, is_busy: bool = False) -> None:
        """It failed: nobody uses it before that time who has another."""
        self._out_until.pop(queue, None)
        self._out_until[queue] = until
        if is_busy:
            self._busy.add(queue)
        else:
            self._busy.discard(queue)

    def put_back(self, queue: str) -> bool:
        """It took a message. True if it had failed before."""
        return self._out_until.pop(queue, None) is not None

    def out_of_rotation(self, now: int) -> list[str]:
        return [queue for queue in self.queues if not self.is_in(queue, now)]
